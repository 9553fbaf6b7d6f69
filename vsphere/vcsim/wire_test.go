package vcsim_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// way makes a logged-in client call over a wire.
type way func(*testing.T, *vcsim.Wire, *govmomi.Client)

func byHTTP(*testing.T, *vcsim.Wire, *govmomi.Client) {}

func directly(t *testing.T, w *vcsim.Wire, c *govmomi.Client) {
	t.Helper()
	session, err := c.SessionManager.UserSession(t.Context())
	ok(t, err)
	c.RoundTripper = w.Direct(session.Key)
}

// byEachWay runs a test in bubbles, once per way.
func byEachWay(t *testing.T, f func(t *testing.T, by way)) {
	for name, by := range map[string]way{"HTTP": byHTTP, "direct": directly} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, by) })
		})
	}
}

// wired returns a vCenter on an in-memory network, a wire, and a client that is logged in over it.
func wired(t *testing.T, by way) (*vcsim.VCenter, *vcsim.Wire, *govmomi.Client, *memnet.Network) {
	t.Helper()
	vc := start(t, vcsim.Config{})
	network := networkOf(vc)
	w, client := connect(t, vc, network, by)
	return vc, w, client, network
}

func connect(t *testing.T, vc *vcsim.VCenter, network *memnet.Network, by way) (*vcsim.Wire, *govmomi.Client) {
	t.Helper()
	w, err := vc.Wire(network.Listen())
	ok(t, err)
	t.Cleanup(func() { ok(t, w.Close()) })
	transport := network.Transport()
	t.Cleanup(transport.CloseIdleConnections)
	client, err := w.Login(t.Context(), w.URL().User, transport)
	ok(t, err)
	by(t, w, client)
	return w, client
}

// breakNext breaks the next call of a method.
func breakNext(w *vcsim.Wire, method string, b vcsim.Break) {
	done := false
	w.On(func(c vcsim.Call) vcsim.Break {
		if done || c.Method != method {
			return vcsim.Break{}
		}
		done = true
		return b
	})
}

func callCreateFolder(ctx context.Context, vc *vcsim.VCenter, c *govmomi.Client, name string) error {
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

func TestEachBreakKind(t *testing.T) {
	t.Parallel()
	byEachWay(t, func(t *testing.T, by way) {
		vc, w, client, _ := wired(t, by)
		for _, c := range []struct {
			name       string
			do         vcsim.Break
			carriedOut bool
			is         func(error) bool
		}{
			{"refused", vcsim.Break{Kind: vcsim.Refused}, false, func(err error) bool { return carriesNoFault(err) }},
			{"replyLost", vcsim.Break{Kind: vcsim.ReplyLost}, true, func(err error) bool { return carriesNoFault(err) }},
			{"faulted", vcsim.Break{Kind: vcsim.Faulted, Fault: &types.NoPermission{PrivilegeId: "Folder.Create"}}, false, func(err error) bool {
				var f *types.NoPermission
				_, is := fault.As(err, &f)
				return is && f.PrivilegeId == "Folder.Create"
			}},
			{"stalled", vcsim.Break{Kind: vcsim.Stalled, Stall: 20 * time.Millisecond}, true, func(err error) bool { return err == nil }},
			{"sessionGone", vcsim.Break{Kind: vcsim.SessionGone}, false, func(err error) bool { return fault.Is(err, &types.NotAuthenticated{}) }},
		} {
			breakNext(w, "CreateFolder", c.do)
			if err := callCreateFolder(t.Context(), vc, client, c.name); !c.is(err) {
				t.Errorf("%s: %v", c.name, err)
			}
			if exists(vc, c.name) != c.carriedOut {
				t.Errorf("%s: executed: %t", c.name, !c.carriedOut)
			}
			broken := slices.DeleteFunc(w.Log(), func(e vcsim.Entry) bool { return !e.Broken })
			if last := broken[len(broken)-1]; last.Method != "CreateFolder" || last.Break.Kind != c.do.Kind || last.Nth != len(broken) {
				t.Errorf("%s: %+v", c.name, last)
			}
		}
	})
}

func carriesNoFault(err error) bool {
	return err != nil && !fault.Is(err, &types.NoPermission{})
}
