package vcfault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// byCall returns a fault as a failed call does; byTask, as a failed task does.
func byCall(f types.BaseMethodFault, message string) error {
	s := &soap.Fault{Code: "ServerFaultCode", String: message}
	s.Detail.Fault = f
	return fmt.Errorf("clone web-0: %w", soap.WrapSoapFault(s))
}

func byTask(f types.BaseMethodFault, message string) error {
	return fmt.Errorf("clone web-0: %w", task.Error{LocalizedMethodFault: &types.LocalizedMethodFault{Fault: f, LocalizedMessage: message}})
}

func TestVCentersFaultsGetAReasonAndSayWhatToDo(t *testing.T) {
	folder := types.ManagedObjectReference{Type: "Folder", Value: "group-v3"}
	vm := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-991"}
	cause := func(f, of types.BaseMethodFault) types.BaseMethodFault {
		of.GetMethodFault().FaultCause = &types.LocalizedMethodFault{Fault: f}
		return of
	}
	for _, tc := range []struct {
		fault         types.BaseMethodFault
		reason        string
		needsOperator bool
		words         []string
	}{
		{&types.NotAuthenticated{}, ReasonNotAuthenticated, false, nil},
		{&types.InvalidLogin{}, ReasonInvalidLogin, true, []string{"VC_USER", "VC_PASS"}},
		{&types.PasswordExpired{}, ReasonInvalidLogin, true, []string{"expired"}},
		{&types.NoPermission{PrivilegeId: "VirtualMachine.Provisioning.Clone", Object: &folder}, ReasonMissingPrivilege, true, []string{"VirtualMachine.Provisioning.Clone on the Folder group-v3"}},
		{&types.NoPermission{PrivilegeId: "VirtualMachine.Interact.PowerOn", Object: &vm}, ReasonMissingPrivilege, true, []string{"VirtualMachine.Interact.PowerOn on the VirtualMachine:"}},
		{&types.NoPermission{MissingPrivileges: []types.NoPermissionEntityPrivileges{{Entity: folder, PrivilegeIds: []string{"B", "A"}}}}, ReasonMissingPrivilege, true, []string{"A on the Folder group-v3, B on"}},
		{&types.NoPermission{}, ReasonMissingPrivilege, true, nil},
		{&types.DuplicateName{Name: "web-0"}, ReasonNameConflict, true, []string{`"web-0"`}},
		{&types.NoDiskSpace{Datastore: "ds1"}, ReasonDatastoreFull, true, []string{`"ds1"`, "full"}},
		{&types.InsufficientStorageSpace{}, ReasonDatastoreFull, true, nil},
		{&types.InvalidDatastoreState{DatastoreName: "ds1"}, ReasonDatastoreInaccessible, true, []string{`"ds1"`, "maintenance"}},
		{&types.InaccessibleDatastore{InvalidDatastore: types.InvalidDatastore{Name: "ds1"}}, ReasonDatastoreInaccessible, true, []string{`"ds1"`}},
		{&types.InsufficientResourcesFault{}, ReasonResourceLimit, true, nil},
		{&types.InsufficientMemoryResourcesFault{}, ReasonResourceLimit, true, []string{"memory"}},
		{&types.InsufficientFailoverResourcesFault{}, ReasonFailoverCapacity, true, []string{"HA", "admission control"}},
		{&types.NoCompatibleHost{}, ReasonResourceLimit, true, nil},
		{&types.NoCompatibleHost{Error: []types.LocalizedMethodFault{{Fault: &types.NoDiskSpace{Datastore: "ds1"}}}}, ReasonDatastoreFull, true, []string{`"ds1"`}},
		{&types.LicenseExpired{}, ReasonLicense, true, nil},
		{&types.TaskInProgress{Task: types.ManagedObjectReference{Type: "Task", Value: "task-9"}}, ReasonTaskInProgress, false, nil},
		{&types.VAppTaskInProgress{}, ReasonTaskInProgress, false, nil},
		{&types.ConcurrentAccess{}, ReasonConcurrentAccess, false, nil},
		{&types.ManagedObjectNotFound{Obj: vm}, ReasonGone, false, nil},
		{&types.InvalidPowerState{ExistingState: "poweredOn"}, ReasonInvalidPowerState, false, []string{"poweredOn"}},
		{&types.QuestionPending{Text: "Moved or copied?"}, ReasonQuestionPending, true, []string{"Moved or copied?"}},
		{&types.InvalidState{}, ReasonInvalidState, false, []string{"it says so"}},
		{&types.MethodDisabled{}, ReasonMethodDisabled, false, nil},
		{&types.HostNotConnected{}, ReasonHostNotConnected, false, nil},
		{&types.HostNotReachable{}, ReasonHostNotConnected, false, nil},
		{&types.InvalidHostState{}, ReasonHostNotConnected, false, []string{"maintenance"}},
		{&types.InvalidHostConnectionState{}, ReasonHostNotConnected, false, []string{"maintenance"}},
		{&types.RequestCanceled{}, ReasonCancelled, false, nil},
		{&types.Timedout{}, ReasonTimeout, false, nil},
		{&types.FileLocked{}, ReasonFileUnavailable, false, []string{"it says so"}},
		{&types.GenericVmConfigFault{}, ReasonInvalidConfiguration, true, []string{"it says so"}},
		{&types.SystemError{Reason: "vpxd"}, ReasonInternal, false, []string{"it says so"}},
		{cause(&types.NoDiskSpace{Datastore: "ds1"}, &types.VmConfigFault{}), ReasonDatastoreFull, true, []string{`"ds1"`}},
	} {
		for way, err := range map[string]error{"call": byCall(tc.fault, "it says so"), "task": byTask(tc.fault, "it says so")} {
			e := Classify("clone", err)
			if e.Reason != tc.reason || e.NeedsOperator != tc.needsOperator || !mentions(e.Message, tc.words...) {
				t.Errorf("%T by %s: got %+v", tc.fault, way, e.Fault)
			}
			if strings.Contains(e.Message, "vm-991") || strings.Contains(e.Message, "task-9") {
				t.Errorf("%T: an id that differs from try to try: %s", tc.fault, e.Message)
			}
			if !errors.Is(e, err) || e.Op != "clone" || e.PlanFault() != e.Fault {
				t.Errorf("%T: got %+v", tc.fault, e)
			}
		}
	}
}

func TestNetworkFailuresGetAReason(t *testing.T) {
	post := func(err error) error { return &url.Error{Op: "Post", URL: "https://vc/sdk", Err: err} }
	dial := func(err error) error {
		return post(&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}, Err: err})
	}
	timeout := os.ErrDeadlineExceeded
	cert := &x509.Certificate{Raw: []byte("c")}
	untrusted := func(err error) error {
		return post(&tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{cert}, Err: err})
	}
	for _, tc := range []struct {
		err    error
		reason string
		words  string
	}{
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), ReasonVCenterUnreachable, "refused"},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), ReasonVCenterUnreachable, "route"},
		{dial(&net.DNSError{Name: "vc"}), ReasonVCenterUnreachable, `"vc"`},
		{dial(timeout), ReasonVCenterUnreachable, "does not answer"},
		{dial(context.DeadlineExceeded), ReasonVCenterUnreachable, "does not answer"},
		{post(&net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 51234}, Err: os.NewSyscallError("read", syscall.ECONNRESET)}), ReasonVCenterUnreachable, "closed"},
		{post(io.EOF), ReasonVCenterUnreachable, "closed"},
		{io.ErrUnexpectedEOF, ReasonVCenterUnreachable, "closed"},
		{post(errors.New("503 Service Unavailable")), ReasonVCenterUnreachable, "(503 Service Unavailable): check that all its services run, and that other programs have not used up its sessions"},
		{post(errors.New("502 Bad Gateway")), ReasonVCenterUnreachable, "(502 Bad Gateway): check that it runs, and that VC_HOST"},
		{post(context.Canceled), ReasonCancelled, ""},
		{context.Canceled, ReasonCancelled, ""},
		{post(context.DeadlineExceeded), ReasonTimeout, ""},
		{untrusted(x509.UnknownAuthorityError{Cert: cert}), ReasonCertificateNotTrusted, Thumbprint(cert)},
		{untrusted(x509.HostnameError{Certificate: cert, Host: "vc"}), ReasonCertificateNotTrusted, "another host name"},
		{untrusted(x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}), ReasonCertificateNotTrusted, "expired"},
		{post(&PinError{Actual: "AA", Pinned: "BB"}), ReasonCertificateNotTrusted, "AA"},
		{ErrTaskLost, ReasonTaskLost, ""},
		{errors.New("odd"), ReasonInternal, "odd"},
	} {
		e := Classify("read", fmt.Errorf("read: %w", tc.err))
		if e.Reason != tc.reason || !strings.Contains(e.Message, tc.words) || strings.Contains(e.Message, "51234") {
			t.Errorf("%v: got %+v", tc.err, e.Fault)
		}
	}
}

func TestATypedErrorStaysAsItIs(t *testing.T) {
	own := ForOperator(ReasonTemplateNotFound, "There is no template.")
	if Classify("", fmt.Errorf("x: %w", own)) != own {
		t.Error("Classify replaced a typed error")
	}
	named := Classify("clone", own)
	if named.Op != "clone" || own.Op != "" || named.Fault != own.Fault {
		t.Errorf("got %+v; want a copy of the fault with the op clone, and the original unchanged", named)
	}
	if Classify("other", named).Op != "clone" {
		t.Error("Classify replaced the op of a typed error")
	}
	if Classify("x", nil) != nil {
		t.Error("Classify returned a fault for no error")
	}
}

func TestMessagesAreTheSameFromTryToTry(t *testing.T) {
	one := internal("Task task-17 failed (opID=4f2a-1): vm 4209aaaa-0000-1111-2222-333344445555\n  has no disk; session[52aa-1] of 3 GB")
	two := internal("Task task-99 failed (opID=77b0-2): vm 4209bbbb-0000-1111-2222-333344445555 has no disk; session[53bb-9] of 3 GB")
	if one != two || !mentions(one.Message, "has no disk", "of 3 GB", "failed") {
		t.Errorf("got the messages %q and %q; want equal ones that keep the cause", one.Message, two.Message)
	}
	if long := internal(strings.Repeat("ü", 2000)); len(long.Message) > messageMax+10 || !strings.HasSuffix(long.Message, "…") {
		t.Errorf("%d bytes", len(long.Message))
	}
	if internal("").Message == "" {
		t.Error("a fault without a message")
	}
}

func mentions(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}
