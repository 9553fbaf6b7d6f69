package vsphere

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/methods"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// A hostile vCenter is made from a friendly one: a test records the friendly one's answers during the life of a group once, in virtual time. Each
// test plays them back, and changes one answer, or all answers to one method.

// said is one recorded answer.
type said struct {
	phase  int // the step of the life during which it was given
	status int
	header http.Header
	body   []byte
}

// tape has a vCenter's answers by request: the method, and the body.
type tape struct {
	answers map[string]map[string][]said
}

// methods returns the methods that were called, sorted.
func (t *tape) methods() []string { return slices.Sorted(maps.Keys(t.answers)) }

// askedFor returns the method of a request, and what distinguishes the request from others of that method.
func askedFor(req *http.Request) (method, body string) {
	raw, _ := io.ReadAll(req.Body)
	_, after, _ := strings.Cut(string(raw), "<Body")
	_, body, _ = strings.Cut(after, ">")
	if end := strings.LastIndex(body, "</Body>"); end > 0 {
		method, _, _ = strings.Cut(body[1:end], ">")
		method, _, _ = strings.Cut(method, " ")
		return method, body[:end]
	}
	return "REST " + session.RESTCall(req), req.URL.Path
}

// recorder forwards requests, and records the answers.
type recorder struct {
	next http.RoundTripper
	mu   sync.Mutex
	tape
	phase int
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	copied := req.Clone(req.Context())
	if req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body, copied.Body = io.NopCloser(bytes.NewReader(raw)), io.NopCloser(bytes.NewReader(raw))
	} else {
		copied.Body = http.NoBody
	}
	method, asked := askedFor(copied)
	res, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	if method == "WaitForUpdatesEx" && !bytes.Contains(body, []byte("<returnval")) {
		return res, nil // no news
	}
	if r.answers[method] == nil {
		r.answers[method] = map[string][]said{}
	}
	r.answers[method][asked] = append(r.answers[method][asked], said{r.phase, res.StatusCode, res.Header, body})
	return res, nil
}

// hostile plays a tape back. twist changes an answer; nth counts the answers to a method, from 0.
type hostile struct {
	*tape
	twist func(method string, nth int, s said) said

	mu     sync.Mutex
	phase  int
	served map[string]int
	turned chan struct{} // closed and replaced with each phase
	// addresses are those that were called.
	addresses map[string]bool
}

func newHostile(t *tape, twist func(string, int, said) said) *hostile {
	return &hostile{tape: t, twist: twist, served: map[string]int{}, addresses: map[string]bool{}, turned: make(chan struct{})}
}

func (h *hostile) next(phase int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = phase
	close(h.turned)
	h.turned = make(chan struct{})
}

// recall returns the last recorded answer to a request up to now; for a request that wasn't recorded, an answer to the same method.
func (h *hostile) recall(method, asked string) (found said, recorded bool, turned <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, exact := h.answers[method][asked]
	if !exact && method != "WaitForUpdatesEx" {
		for _, key := range slices.Sorted(maps.Keys(h.answers[method])) {
			all = append(all, h.answers[method][key]...)
		}
		slices.SortStableFunc(all, func(a, b said) int { return a.phase - b.phase })
	}
	for _, s := range all {
		if !recorded || s.phase <= h.phase {
			if s.phase > h.phase && method == "WaitForUpdatesEx" {
				break
			}
			found, recorded = s, true
		}
	}
	return found, recorded, h.turned
}

const nothingNew = `<?xml version="1.0"?><Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><WaitForUpdatesExResponse xmlns="urn:vim25"/></Body></Envelope>`

func (h *hostile) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		req.Body = http.NoBody
	}
	method, asked := askedFor(req)
	h.mu.Lock()
	h.addresses[req.URL.Scheme+"://"+req.URL.Host] = true
	h.mu.Unlock()
	found, recorded, turned := h.recall(method, asked)
	if method == "WaitForUpdatesEx" {
		for limit := time.After(20 * time.Second); !recorded; found, recorded, turned = h.recall(method, asked) {
			select {
			case <-turned:
				continue
			case <-limit:
				found, recorded = said{status: http.StatusOK, body: []byte(nothingNew)}, true
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
			break
		}
	}
	if !recorded {
		found = said{status: http.StatusNotFound}
	}
	h.mu.Lock()
	nth := h.served[method]
	h.served[method]++
	h.mu.Unlock()
	found = h.twist(method, nth, found)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: found.status, Status: fmt.Sprintf("%d %s", found.status, http.StatusText(found.status)), Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: found.header.Clone(), Body: io.NopCloser(bytes.NewReader(found.body)), ContentLength: int64(len(found.body)), Request: req}, nil
}

// lifeSpec makes a clone look up nearly everything that it can.
func lifeSpec() v1alpha1.VmGroupSpec {
	return v1alpha1.VmGroupSpec{Template: "ubuntu", CPU: 2, Memory: 1, CustomizationSpec: "linux",
		Clone:            v1alpha1.Clone{Mode: v1alpha1.CloneLinked},
		Placement:        v1alpha1.Placement{Pool: firstCluster, Datastore: "DC0_POD0", StoragePolicy: "gold", AntiAffinity: v1alpha1.AntiAffinityPreferred},
		Networks:         []v1alpha1.Network{{Network: "VM Network"}},
		CustomAttributes: map[string]string{"owner": "shop"}, Tags: []v1alpha1.Tag{{Category: "tier", Name: "web", Create: true}}}
}

// lifeSteps are the steps of a life. Each is made from what the inventory shows then, and returns false if that is impossible.
func lifeSteps() []func(v *VCenter) (plan.Action, bool) {
	spec := lifeSpec()
	state := func(v *VCenter) plan.VCenterState {
		return v.State(web, plan.Query{Template: "ubuntu", Rules: plan.RulesOf(&spec), Adopt: []string{legacy + "/db-a"}})
	}
	seen := func(v *VCenter, ordinal int32) (plan.VM, bool) {
		for _, vm := range state(v).VMs {
			if vm.Ordinal == ordinal {
				return vm, true
			}
		}
		return plan.VM{}, false
	}
	clone := func(ordinal int32, spec *v1alpha1.VmGroupSpec) func(v *VCenter) (plan.Action, bool) {
		return func(v *VCenter) (plan.Action, bool) {
			s := state(v)
			return plan.Action{Op: plan.Clone, Key: plan.MemberName("web", ordinal), Ordinal: ordinal, Args: plan.CloneArgs{Folder: s.Folder, Template: s.Template.MoRef, Fingerprint: s.Template.Fingerprint, CPU: 2, MemoryMB: 1024, Revision: "r1", Details: &plan.Details{Spec: spec, UserData: "#cloud-config"}}, Generation: 1}, s.Folder != "" && s.Template.MoRef != ""
		}
	}
	member := func(op plan.Op, ordinal int32, more ...func(*VCenter, *plan.Action)) func(v *VCenter) (plan.Action, bool) {
		return func(v *VCenter) (plan.Action, bool) {
			vm, is := seen(v, ordinal)
			a := guarded(op, vm)
			for _, f := range more {
				f(v, &a)
			}
			return a, is
		}
	}
	return []func(v *VCenter) (plan.Action, bool){
		func(*VCenter) (plan.Action, bool) { return plan.Action{Op: plan.CreateFolder}, true },
		clone(0, &spec),
		clone(1, &v1alpha1.VmGroupSpec{Template: "ubuntu"}),
		member(plan.Prepare, 0, func(_ *VCenter, a *plan.Action) {
			a.Args = &plan.Details{Spec: &spec, Prepared: plan.PreparationOf(&spec)}
		}),
		func(*VCenter) (plan.Action, bool) { return settingRules(spec.Placement.AntiAffinity), true },
		member(plan.PowerOn, 0),
		member(plan.PowerOn, 1),
		member(plan.Reset, 0),
		member(plan.Mark, 0, func(_ *VCenter, a *plan.Action) {
			a.Args, a.Generation = plan.MarkArgs{Reason: plan.MarkReasonUpdate}, 1
		}),
		member(plan.ShutdownGuest, 0),
		member(plan.PowerOff, 0),
		member(plan.Unmark, 0),
		member(plan.Reconfigure, 0, func(_ *VCenter, a *plan.Action) { a.Args = plan.ResizeArgs{CPU: 4, MemoryMB: 2048} }),
		func(v *VCenter) (plan.Action, bool) {
			s := state(v)
			return plan.Action{Op: plan.CreateQuarantine, Args: plan.MoveArgs{Folder: s.Folder}}, s.Folder != ""
		},
		member(plan.Quarantine, 0),
		member(plan.Rename, 0, func(_ *VCenter, a *plan.Action) {
			a.Args = plan.RenameArgs{Name: plan.QuarantineName("web", 0, a.MoRef)}
		}),
		member(plan.Move, 0, func(v *VCenter, a *plan.Action) { a.Args = plan.MoveArgs{Folder: state(v).Quarantine} }),
		member(plan.Destroy, 0),
		func(v *VCenter) (plan.Action, bool) {
			s := state(v)
			if len(s.Candidates) != 1 || s.Candidates[0].Fault != nil {
				return plan.Action{}, false
			}
			return taking(s.Candidates[0], 2), true
		},
		member(plan.Release, 2),
		member(plan.PowerOff, 1),
		clone(3, &v1alpha1.VmGroupSpec{Template: "ubuntu"}),
		member(plan.Destroy, 3, func(_ *VCenter, a *plan.Action) { a.Args = plan.DestroyArgs{NeverOn: true} }),
		member(plan.Destroy, 1),
		func(v *VCenter) (plan.Action, bool) {
			s := state(v)
			return plan.Action{Op: plan.RemoveFolder, MoRef: s.Folder}, s.Folder != ""
		},
		func(*VCenter) (plan.Action, bool) {
			return plan.Action{Op: plan.ConfirmGone, Key: plan.ConfirmKey}, true
		},
	}
}

var (
	recording sync.Once
	friendly  *recorder
	unfit     error
)

// recorded is the life with the answers of a friendly vCenter. The first test that needs it records it, in virtual time, so that it doesn't
// depend on how busy the machine is.
func recorded(t *testing.T) *recorder {
	t.Helper()
	recording.Do(func() { synctest.Test(t, func(*testing.T) { friendly, unfit = record() }) })
	if friendly == nil {
		t.Fatalf("the life of a friendly vCenter was not recorded: %v", unfit)
	}
	return friendly
}

func record() (*recorder, error) {
	network := memnet.New()
	vc, err := vcsim.Start(vcsim.Config{Listener: network.Listen(), Templates: []string{"ubuntu"}, Clusters: 1, Hosts: 2, Datastores: 2, Pods: 1, Guest: vcsim.Guest{Tools: true}})
	if err != nil {
		return nil, err
	}
	defer vc.Close()
	must := func(e error) {
		if err == nil {
			err = e
		}
	}
	_, e := vc.AddSnapshot("ubuntu", "base")
	must(e)
	must(vc.AddCustomizationSpec("linux", false))
	_, e = vc.AddStoragePolicy("gold", "/DC0/datastore/LocalDS_1", "/DC0/datastore/DC0_POD0/DC0_POD0_DS1")
	must(e)
	_, e = vc.MakeFolder(legacy)
	must(e)
	_, e = vc.AddVM(legacy, "db-a")
	must(e)
	_, e = vc.AddTag("tier", "db")
	must(e)
	must(vc.RegisterExtension(role.ExtensionKey))
	cfg := hostileConfig(vc.URL().Host)
	cfg.Dial = network.DialContext
	v, e := New(cfg)
	must(e)
	if err != nil {
		return nil, err
	}
	r := &recorder{next: v.client.Transport().Clone(), tape: tape{answers: map[string]map[string][]said{}}}
	v.client.RegisterProtocol("https", r)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := v.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		_, err := methods.GetCurrentTime(ctx, s.Vim)
		return err
	}); err != nil { // like the server with a session after an outage
		return nil, err
	}
	for i, next := range lifeSteps() {
		r.mu.Lock()
		r.phase = i + 1
		r.mu.Unlock()
		var a plan.Action
		ready := false
		for deadline := time.Now().Add(20 * time.Second); !ready && time.Now().Before(deadline); {
			if v.State(web, plan.Query{}).Known {
				a, ready = next(v)
			}
			if !ready {
				time.Sleep(5 * time.Millisecond)
			}
		}
		if !ready {
			return nil, fmt.Errorf("step %d could not begin", i)
		}
		if _, err := v.Do(context.Background(), web, a); err != nil {
			return nil, fmt.Errorf("%s %s: %w", a.Op, a.Key, err)
		}
	}
	return r, nil
}

func hostileConfig(host string) Config {
	return Config{Config: session.Config{Host: host, User: "vmgroup", Password: "pass", Insecure: true, Log: zerolog.Nop(), SearchMost: 300},
		Selection: inventory.Selection{ClusterID: "test", AdoptFrom: []inventory.AdoptRule{{Namespace: "shop", Folder: legacy}}}}
}

// live runs the life against a tape whose answers are twisted. Whatever the answers are, the server must not panic or hang, and a step may fail only
// with a typed fault. live returns the faults by step.
func live(t *testing.T, twist func(method string, nth int, s said) said) map[int]*vcfault.Error {
	r := recorded(t)
	faults := map[int]*vcfault.Error{}
	synctest.Test(t, func(t *testing.T) {
		v, err := New(hostileConfig("vcenter.test"))
		must.Succeed(t, err)
		h := newHostile(&r.tape, twist)
		v.client.RegisterProtocol("https", h)
		v.client.RegisterProtocol("http", h)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = v.Run(ctx) }()
		failed := 0
		for i, next := range lifeSteps() {
			h.next(i + 1)
			if failed == 3 { // the rest fails too
				break
			}
			var a plan.Action
			ready := false
			for range 8 {
				synctest.Wait()
				if v.State(web, plan.Query{}).Known {
					a, ready = next(v)
				}
				if ready {
					break
				}
				time.Sleep(2 * time.Second)
			}
			if !ready {
				fault := v.State(web, plan.Query{}).Fault
				if fault == nil {
					fault = &plan.Fault{Reason: "NotReady"}
				}
				faults[i] = &vcfault.Error{Fault: *fault}
				failed++
				continue
			}
			act, done := context.WithTimeout(ctx, 30*time.Second)
			if _, err := v.Do(act, web, a); err != nil {
				e := vctest.AsError(err)
				if e == nil || e.Reason == "" || e.Message == "" {
					t.Errorf("%s %s ended without a typed fault: %v", a.Op, a.Key, err)
				}
				faults[i] = e
				failed++
			} else {
				failed = 0
			}
			done()
		}
		cancel()
		<-ended
		for address := range h.addresses {
			if address != "https://vcenter.test" {
				t.Errorf("%s was called; want %s", address, "https://vcenter.test")
			}
		}
	})
	return faults
}
