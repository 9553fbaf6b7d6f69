package test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// brokenCall is one break: which call of a life, and how. The call is the nth of a method in order of arrival.
type brokenCall struct {
	method string
	nth    int
	kind   string
	reason string // of breakFaulted and taskFails: the fault's type
}

// The kinds of breaks. The wire does all but taskFails.
const (
	breakRefused      = "Refused"
	breakReplyLost    = "ReplyLost"
	breakSessionGone  = "SessionGone"
	breakFaulted      = "Faulted"
	breakStalled      = "Stalled"
	breakKilledBefore = "KilledBefore"
	breakKilledAfter  = "KilledAfter"
	// taskFails lets the call reach vCenter, and makes the task that it began fail.
	taskFails = "TaskFails"
)

// stallFor is how long a call stalls: longer than Metacontroller waits for a hook's answer, and shorter than the server's own time limit. The limit
// is lower for a call that takes a member down.
func stallFor(method string) time.Duration {
	switch method {
	case "ShutdownGuest", "PowerOffVM_Task", "ResetVM_Task":
		return 12 * time.Second
	}
	return 30 * time.Second
}

// String returns what -campaign.only takes: "CloneVM_Task#2/ReplyLost", "CloneVM_Task#2/Faulted:NoDiskSpace".
func (s brokenCall) String() string {
	text := fmt.Sprintf("%s#%d/%s", s.method, s.nth, s.kind)
	if s.reason != "" {
		text += ":" + s.reason
	}
	return text
}

// variant is the shape of a life's group, and the scenario that the life runs.
type variant struct{ shape, scenario string }

// String returns "rich, updated".
func (c variant) String() string { return c.shape + ", " + c.scenario }

// variants lists all variants, in order.
func variants() (all []variant) {
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		for _, scenario := range scenarios {
			all = append(all, variant{shape, scenario})
		}
	}
	return all
}

// plain is the default variant of a job whose name doesn't contain a variant.
var plain = variant{"plain", scaled}

// job is one life to run.
type job struct {
	variant
	brokenCalls []brokenCall
}

// only returns the life of a variant in which only this call breaks.
func only(of variant, s brokenCall) job { return job{of, []brokenCall{s}} }

// name returns the job in the format of -campaign.only.
func (j job) name() string {
	text := "unbroken"
	for i, s := range j.brokenCalls {
		if i == 0 {
			text = s.String()
		} else {
			text += " + " + s.String()
		}
	}
	if j.variant != plain {
		text = j.variant.String() + ":" + text
	}
	return text
}

// parseJob parses a text that name returned.
func parseJob(text string) (j job, err error) {
	j.variant = plain
	for _, c := range variants() {
		if rest, found := strings.CutPrefix(text, c.String()+":"); found {
			j.variant, text = c, rest
		}
	}
	if text == "unbroken" {
		return j, nil
	}
	for part := range strings.SplitSeq(text, " + ") {
		s, err := parseBrokenCall(part)
		if err != nil {
			return j, err
		}
		j.brokenCalls = append(j.brokenCalls, s)
	}
	return j, nil
}

// parseBrokenCall parses a text that brokenCall.String returned. The name of a REST method contains slashes.
func parseBrokenCall(text string) (s brokenCall, err error) {
	slash := strings.LastIndexByte(text, '/')
	hash := strings.LastIndexByte(text, '#')
	if hash < 0 || slash < hash {
		return s, fmt.Errorf("%q is not of the form CloneVM_Task#2/ReplyLost", text)
	}
	s.method = text[:hash]
	s.kind, s.reason, _ = strings.Cut(text[slash+1:], ":")
	s.nth, err = strconv.Atoi(text[hash+1 : slash])
	return s, err
}

// order returns what the wire must do to the call.
func (s brokenCall) order() vcsim.Break {
	switch s.kind {
	case breakRefused:
		return vcsim.Break{Kind: vcsim.Refused}
	case breakReplyLost:
		return vcsim.Break{Kind: vcsim.ReplyLost}
	case breakSessionGone:
		return vcsim.Break{Kind: vcsim.SessionGone}
	case breakFaulted:
		return vcsim.Break{Kind: vcsim.Faulted, Fault: s.fault()}
	case breakStalled:
		return vcsim.Break{Kind: vcsim.Stalled, Stall: stallFor(s.method)}
	case breakKilledBefore:
		return vcsim.Break{Kind: vcsim.KilledBefore}
	case breakKilledAfter:
		return vcsim.Break{Kind: vcsim.KilledAfter}
	}
	return vcsim.Break{}
}

func (s brokenCall) fault() types.BaseMethodFault { return faultTypes[s.reason] }

// kindsFor lists the breaks for a method: every kind, and a fault of each typed reason that it can answer.
func kindsFor(method string) (all []brokenCall) {
	for _, kind := range []string{breakReplyLost, breakRefused, breakSessionGone, breakKilledAfter, breakKilledBefore, breakStalled} {
		if kind != breakSessionGone || !slices.Contains(withoutSession, method) {
			all = append(all, brokenCall{method: method, kind: kind})
		}
	}
	for _, reason := range faultsOf(method) {
		all = append(all, brokenCall{method: method, kind: breakFaulted, reason: reason})
	}
	if taskKinds[method] != "" {
		for _, reason := range taskFaults[method] {
			all = append(all, brokenCall{method: method, kind: taskFails, reason: reason})
		}
	}
	return all
}

// withoutSession are the methods that the server calls before it has a session, so a lost session can't break them.
var withoutSession = []string{"RetrieveServiceContent", "Login", restLogin}

// taskKinds are the kinds of the tasks that methods begin.
var taskKinds = map[string]vcsim.Kind{
	"CloneVM_Task": vcsim.Clone, "PowerOnVM_Task": vcsim.PowerOn, "PowerOnMultiVM_Task": vcsim.PowerOn, "PowerOffVM_Task": vcsim.PowerOff, "Destroy_Task": vcsim.Destroy,
	"ReconfigVM_Task": vcsim.Reconfigure, "ShutdownGuest": vcsim.ShutdownGuest, "ResetVM_Task": vcsim.Reset,
	"MoveIntoFolder_Task": vcsim.MoveInto, "ReconfigureComputeResource_Task": vcsim.ReconfigureCluster,
}

// faultTypes are the faults that the package vsphere distinguishes: one or two from each row of vsphere/vcfault/table.go, and a few that no row has.
var faultTypes = map[string]types.BaseMethodFault{
	"InvalidLogin":                &types.InvalidLogin{},
	"PasswordExpired":             &types.PasswordExpired{},
	"NoPermission":                &types.NoPermission{PrivilegeId: "System.Read"},
	"DuplicateName":               &types.DuplicateName{Name: "web"},
	"NoDiskSpace":                 &types.NoDiskSpace{Datastore: "LocalDS_0"},
	"InsufficientStorageSpace":    &types.InsufficientStorageSpace{},
	"NoCompatibleDatastore":       &types.NoCompatibleDatastore{},
	"InaccessibleDatastore":       &types.InaccessibleDatastore{InvalidDatastore: types.InvalidDatastore{Name: "LocalDS_0"}},
	"CannotAccessNetwork":         &types.CannotAccessNetwork{},
	"SnapshotCloneNotSupported":   &types.SnapshotCloneNotSupported{},
	"NicSettingMismatch":          &types.NicSettingMismatch{},
	"UncustomizableGuest":         &types.UncustomizableGuest{},
	"CannotDecryptPasswords":      &types.CannotDecryptPasswords{},
	"MissingLinuxCustResources":   &types.MissingLinuxCustResources{},
	"MissingWindowsCustResources": &types.MissingWindowsCustResources{},
	"InsufficientMemoryResources": &types.InsufficientMemoryResourcesFault{},
	"RuleViolation":               &types.RuleViolation{},
	"NoCompatibleHost":            &types.NoCompatibleHost{},
	"NotEnoughLicenses":           &types.NotEnoughLicenses{},
	"TaskInProgress":              &types.TaskInProgress{},
	"ConcurrentAccess":            &types.ConcurrentAccess{},
	"ManagedObjectNotFound":       &types.ManagedObjectNotFound{Obj: types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-0"}},
	"InvalidPowerState":           &types.InvalidPowerState{},
	"ToolsUnavailable":            &types.ToolsUnavailable{},
	"QuestionPending":             &types.QuestionPending{Text: "moved or copied?"},
	"MethodDisabled":              &types.MethodDisabled{},
	"HostNotReachable":            &types.HostNotReachable{},
	"HostConnectFault":            &types.HostConnectFault{},
	"RequestCanceled":             &types.RequestCanceled{},
	"Timedout":                    &types.Timedout{},
	"FileLocked":                  &types.FileLocked{},
	"InvalidState":                &types.InvalidState{},
	"CustomizationFault":          &types.CustomizationFault{},
	"SnapshotFault":               &types.SnapshotFault{},
	"GenericVmConfigFault":        &types.GenericVmConfigFault{},
	"CpuHotPlugNotSupported":      &types.CpuHotPlugNotSupported{},
	"MemoryHotPlugNotSupported":   &types.MemoryHotPlugNotSupported{},
	"InvalidCollectorVersion":     &types.InvalidCollectorVersion{},
	"SystemError":                 &types.SystemError{Reason: "campaign"},
	"InvalidArgument":             &types.InvalidArgument{},
}

// common are the faults with which any method can fail.
//
// [doc] RuntimeFault and its kinds "can be thrown by any method"; HostCommunication, NoPermission and RequestCanceled are among
// them.
var common = []string{"SystemError", "NoPermission", "HostNotReachable", "RequestCanceled"}

// faultsOf lists the faults with which a method itself can fail, without the faults of the task that it begins.
//
// [doc] the faults in the description of each method (vSphere Web Services API).
func faultsOf(method string) []string {
	own := map[string][]string{
		"Login":                {"InvalidLogin", "PasswordExpired"},
		"CreateFolder":         {"DuplicateName", "ManagedObjectNotFound"},
		"ShutdownGuest":        {"ToolsUnavailable", "TaskInProgress", "InvalidState", "InvalidPowerState", "ManagedObjectNotFound"},
		"WaitForUpdatesEx":     {"InvalidCollectorVersion", "ManagedObjectNotFound"},
		"ModifyListView":       {"ManagedObjectNotFound"},
		"RetrievePropertiesEx": {"ManagedObjectNotFound", "Timedout"},
	}
	if method == restLogin { // [doc] com.vmware.cis.session create: unauthenticated, service_unavailable; it has no unauthorized
		return []string{"SystemError", "HostNotReachable"}
	}
	if strings.HasPrefix(method, "GET ") || strings.HasPrefix(method, "POST ") || strings.HasPrefix(method, "DELETE ") {
		return []string{"SystemError", "NoPermission", "HostNotReachable", "ManagedObjectNotFound", "InvalidArgument"}
	}
	all := append([]string{}, common...)
	all = append(all, own[method]...)
	return append(all, taskFaults[method]...)
}

// vmFaults are the faults of any task on a VM.
var vmFaults = []string{"TaskInProgress", "InvalidState", "InvalidPowerState", "FileLocked", "ManagedObjectNotFound", "MethodDisabled", "HostConnectFault", "Timedout", "QuestionPending"}

// powerOnFaults are the faults of a power-on, by PowerOnVM_Task or by PowerOnMultiVM_Task.
var powerOnFaults = append([]string{"InsufficientMemoryResources", "RuleViolation", "NoCompatibleHost", "NotEnoughLicenses", "CannotAccessNetwork", "NoDiskSpace", "GenericVmConfigFault"}, vmFaults...)

// taskFaults returns the faults with which a method itself can fail, and those with which its task can fail.
var taskFaults = map[string][]string{
	"CloneVM_Task": append([]string{"DuplicateName", "NoDiskSpace", "InsufficientStorageSpace", "NoCompatibleDatastore", "InaccessibleDatastore",
		"CannotAccessNetwork", "SnapshotCloneNotSupported", "NicSettingMismatch", "UncustomizableGuest", "CannotDecryptPasswords",
		"MissingLinuxCustResources", "MissingWindowsCustResources", "InsufficientMemoryResources", "NoCompatibleHost", "NotEnoughLicenses",
		"ConcurrentAccess", "CustomizationFault", "SnapshotFault", "GenericVmConfigFault"}, vmFaults...),
	"PowerOnVM_Task":                  powerOnFaults,
	"PowerOnMultiVM_Task":             powerOnFaults,
	"PowerOffVM_Task":                 vmFaults,
	"ResetVM_Task":                    vmFaults,
	"Destroy_Task":                    vmFaults,
	"ShutdownGuest":                   {"TaskInProgress"},
	"ReconfigVM_Task":                 append([]string{"ConcurrentAccess", "CpuHotPlugNotSupported", "MemoryHotPlugNotSupported", "InsufficientMemoryResources", "GenericVmConfigFault", "DuplicateName"}, vmFaults...),
	"MoveIntoFolder_Task":             append([]string{"DuplicateName"}, vmFaults...),
	"ReconfigureComputeResource_Task": {"TaskInProgress", "ConcurrentAccess", "GenericVmConfigFault"},
}

// restLogin opens a session of the REST API.
const restLogin = "POST /rest/com/vmware/cis/session"
