package breaker

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/pbm"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// wired is a vCenter, a wire to it, and a client that is logged in through it.
func wired(t *testing.T) (*vcsim.VCenter, *Wire, *govmomi.Client) {
	t.Helper()
	vc, err := vcsim.Start(vcsim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = vc.Close() })
	w, client := another(t, vc)
	return vc, w, client
}

func another(t *testing.T, vc *vcsim.VCenter) (*Wire, *govmomi.Client) {
	t.Helper()
	w, err := New(vc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := govmomi.NewClient(t.Context(), w.URL(), true)
	if err != nil {
		t.Fatal(err)
	}
	return w, client
}

// breakNext breaks the next call of a method.
func breakNext(w *Wire, method string, b Break) {
	done := false
	w.On(func(c Call) Break {
		if done || c.Method != method {
			return Break{}
		}
		done = true
		return b
	})
}

func makeFolder(ctx context.Context, vc *vcsim.VCenter, c *govmomi.Client, name string) error {
	ref, err := vc.Find("/DC0/vm")
	if err != nil {
		return err
	}
	_, err = object.NewFolder(c.Client, ref).CreateFolder(ctx, name)
	return err
}

func exists(vc *vcsim.VCenter, name string) bool {
	_, err := vc.Find("/DC0/vm/" + name)
	return err == nil
}

func TestACallIsBrokenAsItIsTold(t *testing.T) {
	t.Parallel()
	vc, w, client := wired(t)
	for _, c := range []struct {
		name       string
		do         Break
		carriedOut bool
		is         func(error) bool
	}{
		{"refused", Break{Kind: Refused}, false, func(err error) bool { return carriesNoFault(err) }},
		{"replyLost", Break{Kind: ReplyLost}, true, func(err error) bool { return carriesNoFault(err) }},
		{"faulted", Break{Kind: Faulted, Fault: &types.NoPermission{PrivilegeId: "Folder.Create"}}, false, func(err error) bool {
			var f *types.NoPermission
			_, is := fault.As(err, &f)
			return is && f.PrivilegeId == "Folder.Create"
		}},
		{"stalled", Break{Kind: Stalled, Stall: 20 * time.Millisecond}, true, func(err error) bool { return err == nil }},
		{"sessionGone", Break{Kind: SessionGone}, false, func(err error) bool { return fault.Is(err, &types.NotAuthenticated{}) }},
	} {
		breakNext(w, "CreateFolder", c.do)
		if err := makeFolder(t.Context(), vc, client, c.name); !c.is(err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if exists(vc, c.name) != c.carriedOut {
			t.Errorf("%s: carried out is %t", c.name, !c.carriedOut)
		}
		broken := w.Broken()
		if last := broken[len(broken)-1]; last.Method != "CreateFolder" || last.Break.Kind != c.do.Kind || last.Nth != len(broken) {
			t.Errorf("%s: %+v", c.name, last)
		}
	}
}

func carriesNoFault(err error) bool {
	return err != nil && !fault.Is(err, &types.NoPermission{})
}

func TestAKilledWireStaysDeadAndOthersLive(t *testing.T) {
	t.Parallel()
	vc, w, client := wired(t)
	other, otherClient := another(t, vc)
	breakNext(w, "CreateFolder", Break{Kind: KilledAfter})
	if err := makeFolder(t.Context(), vc, client, "after"); err == nil || !exists(vc, "after") {
		t.Errorf("%v, %t", err, exists(vc, "after"))
	}
	w.Mend()
	if _, err := methods.GetCurrentTime(t.Context(), client); err == nil {
		t.Error("a call passed a wire that was killed")
	}
	breakNext(other, "CreateFolder", Break{Kind: KilledBefore})
	if _, err := methods.GetCurrentTime(t.Context(), otherClient); err != nil {
		t.Error(err)
	}
	if err := makeFolder(t.Context(), vc, otherClient, "before"); err == nil || exists(vc, "before") {
		t.Errorf("%v, %t", err, exists(vc, "before"))
	}
	if n := vc.Sessions(); n != 2 {
		t.Errorf("%d sessions are left of two processes that died", n)
	}
}

func TestACutNetworkComesBack(t *testing.T) {
	t.Parallel()
	_, w, client := wired(t)
	w.Cut()
	if _, err := methods.GetCurrentTime(t.Context(), client); err == nil {
		t.Error("a call passed a wire that was cut")
	}
	w.Mend()
	if _, err := methods.GetCurrentTime(t.Context(), client); err != nil {
		t.Error(err)
	}
}

func TestOnlyTheSessionOfTheCallEnds(t *testing.T) {
	t.Parallel()
	vc, w, client := wired(t)
	_, otherClient := another(t, vc)
	breakNext(w, "CurrentTime", Break{Kind: SessionGone})
	if _, err := methods.GetCurrentTime(t.Context(), client); !fault.Is(err, &types.NotAuthenticated{}) {
		t.Error(err)
	}
	if _, err := methods.GetCurrentTime(t.Context(), otherClient); err != nil {
		t.Error(err)
	}
	if n := vc.Sessions(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestPoliciesAndTagsPassAndBreak(t *testing.T) {
	t.Parallel()
	vc, w, client := wired(t)
	policies, err := pbm.NewClient(t.Context(), client.Client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policies.ProfileIDByName(t.Context(), "vSAN Default Storage Policy"); err != nil {
		t.Error(err)
	}
	api := rest.NewClient(client.Client)
	if err := api.Login(t.Context(), url.UserPassword("user", "pass")); err != nil {
		t.Fatal(err)
	}
	const category = "POST /rest/com/vmware/cis/tagging/category"
	create := func(name string) error {
		_, err := tags.NewManager(api).CreateCategory(t.Context(), &tags.Category{Name: name, Cardinality: "SINGLE"})
		return err
	}
	if err := create("one"); err != nil {
		t.Error(err)
	}
	breakNext(w, category, Break{Kind: Faulted, Fault: &types.NoPermission{}})
	if err := create("two"); err == nil {
		t.Error("a faulted call of REST gave no error")
	}
	breakNext(w, category, Break{Kind: SessionGone})
	if err := create("three"); err == nil || vc.RESTSessions() != 0 || vc.Sessions() != 1 {
		t.Errorf("%v, %d and %d sessions", err, vc.RESTSessions(), vc.Sessions())
	}
	var seen []string
	for _, c := range w.Calls() {
		seen = append(seen, c.Method)
	}
	for _, method := range []string{"RetrieveServiceContent", "Login", "PbmRetrieveServiceContent", category, "POST /rest/com/vmware/cis/session"} {
		if !slices.Contains(seen, method) || vc.Calls()[method] == 0 {
			t.Errorf("%s is not among %v", method, seen)
		}
	}
}

func TestAClientThatGoesEndsItsStall(t *testing.T) {
	t.Parallel()
	_, w, client := wired(t)
	breakNext(w, "CurrentTime", Break{Kind: Stalled, Stall: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := methods.GetCurrentTime(ctx, client); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for {
		log := w.Log()
		if last := log[len(log)-1]; last.Done {
			if last.Broken {
				t.Error("it is taken for a stall")
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}
