package test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const datastore0 = "/DC0/datastore/LocalDS_0"

// After a quarter of an hour, vCenter is asked once a minute. What it shows to have changed makes a try due before that.
func TestWhatEndsALastingRefusalMakesATryDue(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for name, trouble := range map[string]struct {
		config     vcsim.Config
		fault      types.BaseMethodFault // of clones; nil: the simulator refuses them itself
		begin, end func(*testing.T, *lasting)
		spec       func(*v1alpha1.VmGroupSpec)
	}{
		"free space": {
			begin: func(_ *testing.T, x *lasting) { x.must(x.FillDatastore(datastore0, true)) },
			end:   func(_ *testing.T, x *lasting) { x.must(x.FillDatastore(datastore0, false)) },
		},
		"a datastore's maintenance": {
			begin: func(_ *testing.T, x *lasting) { x.must(x.MaintainDatastore(datastore0, true)) },
			end:   func(_ *testing.T, x *lasting) { x.must(x.MaintainDatastore(datastore0, false)) },
		},
		"a host that is gone": {
			config: vcsim.Config{Hosts: 2}, fault: &types.InsufficientMemoryResourcesFault{},
			begin: func(_ *testing.T, x *lasting) { x.must(x.RemoveHost("/DC0/host/DC0_C0/DC0_C0_H1")) },
			end:   func(_ *testing.T, x *lasting) { x.must(x.AddHost("DC0_C0_H1")) },
		},
		"a host's maintenance": {
			config: vcsim.Config{Hosts: 2}, fault: &types.InsufficientMemoryResourcesFault{},
			begin: func(t *testing.T, x *lasting) {
				task, err := x.host(t, "DC0_C0_H1").EnterMaintenanceMode(t.Context(), 0, false, nil)
				x.done(t, task, err)
			},
			end: func(t *testing.T, x *lasting) {
				task, err := x.host(t, "DC0_C0_H1").ExitMaintenanceMode(t.Context(), 0)
				x.done(t, task, err)
			},
		},
		"a network that wasn't there": {
			config: vcsim.Config{Portgroups: 1},
			begin:  func(*testing.T, *lasting) {},
			end: func(t *testing.T, x *lasting) {
				ref, err := x.Find("/DC0/network/DC0_DVPG0")
				x.must(err)
				task, err := object.NewCommon(x.Admin().Client, ref).Rename(t.Context(), "late")
				x.done(t, task, err)
			},
			spec: func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "late"}} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := newLasting(t, trouble.config, "CloneVM_Task")
				trouble.begin(t, x)
				x.becomes(trouble.fault)
				g := x.group("web0", 3)
				if trouble.spec != nil {
					g.Edit(trouble.spec)
				}
				called(t, 15*time.Minute, g)
				for x.since(); trouble.spec == nil && !x.cloned(); { // until a try of the minute; a lookup of a name isn't one
					called(t, time.Second, g)
				}
				called(t, 45*time.Second, g) // until it has failed
				x.becomes(nil)
				x.since()
				trouble.end(t, x)
				called(t, 10*time.Second, g)
				if !x.cloned() {
					t.Errorf("no try within ten seconds: %s", g.Status.LastMessage)
				}
				t.Logf("up %s later", allUp(t, g))
			})
		})
	}
}

// The space that a clone takes until it fails, and gives back, is no change that makes a try due.
func TestWhatAFailedCloneGivesBackMakesNoTryDue(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newLasting(t, vcsim.Config{}, "CloneVM_Task")
		x.becomes(lastingFaults["no space"])
		groups := x.groupsOf(2)
		called(t, 7*time.Minute, groups...)
		x.since()
		for range 12 {
			x.must(x.FillDatastore(datastore0, true))
			called(t, 5*time.Second, groups...)
			x.must(x.FillDatastore(datastore0, false))
			called(t, 5*time.Second, groups...)
		}
		if tries, calls := x.since(); tries > 3 || calls > 10*tries+idleCalls {
			t.Errorf("%d tries with %d calls in two minutes in which the datastore's free space goes and comes; want at most 3 tries, with 10 calls each and %d others", tries, calls, idleCalls)
		}
	})
}

// cloned reports whether a clone was begun since the last call of since.
func (x *lasting) cloned() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.calls, "CloneVM_Task")
}

func (x *lasting) host(t *testing.T, name string) *object.HostSystem {
	t.Helper()
	ref, err := x.Find("/DC0/host/DC0_C0/" + name)
	x.must(err)
	return object.NewHostSystem(x.Admin().Client, ref)
}

// done waits for the end of an operator's task.
func (x *lasting) done(t *testing.T, task *object.Task, err error) {
	t.Helper()
	x.must(err)
	x.must(task.Wait(t.Context()))
}
