package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// impossible are edits after which no member can be created, each because of the edit itself or because of what happens in vCenter at the same time.
var impossible = map[string]struct {
	edit    func(*spec)
	happens func(*rig)
	// costs is how many members the server can take down if no extra member is created first: a fault that only the clone itself shows costs one.
	costs int
}{
	"template":       {edit: func(s *spec) { s.Template = "nonesuch" }},
	"library item":   {edit: func(s *spec) { s.Template = "golden/nonesuch" }},
	"snapshot":       {edit: func(s *spec) { s.Clone.Snapshot = "nonesuch" }},
	"linked clone":   {edit: func(s *spec) { s.Clone.Mode = v1alpha1.CloneLinked }}, // can't be created, because the template has no snapshot
	"resource pool":  {edit: func(s *spec) { s.Placement.Pool = "nonesuch" }},
	"zones":          {edit: func(s *spec) { s.Placement.Zones = []string{"nowhere", "nonesuch"} }},
	"datastore":      {edit: func(s *spec) { s.Placement.Datastore = "nonesuch" }},
	"storage policy": {edit: func(s *spec) { s.Placement.StoragePolicy = "nonesuch" }},
	"network":        {edit: func(s *spec) { s.Networks = []v1alpha1.Network{{Network: "nonesuch"}} }},
	"customization":  {edit: func(s *spec) { s.CustomizationSpec = "nonesuch" }},
	"tag": {edit: func(s *spec) {
		s.Template, s.Tags = otherTemplate, []v1alpha1.Tag{{Category: "nonesuch", Name: "nonesuch"}}
	}},
	"user data":            {edit: func(s *spec) { s.UserData = secretOf("nonesuch") }},
	"no space":             {edit: rolls, happens: clonesFail(&types.NoDiskSpace{Datastore: "LocalDS_0"}), costs: 1},
	"no privilege":         {edit: rolls, happens: clonesFail(&types.NoPermission{PrivilegeId: "VirtualMachine.Provisioning.DeployTemplate"}), costs: 1},
	"a limit":              {edit: rolls, happens: clonesFail(&types.NotEnoughLicenses{}), costs: 1},
	"an unknown fault":     {edit: rolls, happens: clonesFail(&types.SystemError{Reason: "unknown"}), costs: 1},
	"replace, no template": {edit: func(s *spec) {}, happens: func(r *rig) { r.must(r.Rename("/DC0/vm/vm-operator-template", "elsewhere")) }},
}

func rolls(s *spec) { s.Template = otherTemplate }

func secretOf(name string) *v1alpha1.UserData {
	return &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: name, Key: "user-data"}}
}

func clonesFail(f types.BaseMethodFault) func(*rig) {
	return func(r *rig) { r.FailTask(vcsim.Clone, func(string) bool { return true }, f, 0) }
}

// While no new member can be created, for whatever reason, the server takes no member down: neither one that spec.replace names, nor one that differs
// from the spec.
func TestWhileNoMemberCanBeClonedNoUpdateTakesOneDown(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	n := -1
	for _, name := range slices.Sorted(maps.Keys(impossible)) {
		what := impossible[name]
		for surge := range 2 {
			for standby := range int32(2) {
				if n++; leftOut(n) {
					continue
				}
				t.Run(fmt.Sprintf("%s, maxSurge %d, standby %d", name, surge, standby), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						r := newChangeRig(t, vcsim.Guest{})
						g := r.serve().group("web", 4)
						g.Spec.Update.MaxSurge, g.Spec.Update.MaxUnavailable, g.Spec.Standby = number(surge), number(2), standby
						up(t, g)
						_, err := g.Until(within(t), func(a metacontroller.Answer) bool { return a.Status.StandbyReplicas == standby })
						r.must(err)
						was := r.members()
						exist := r.sample(func() int { return tally(r.members(), isOn) })
						if what.happens != nil {
							what.happens(r)
						}
						g.Edit(func(s *spec) {
							what.edit(s)
							if strings.HasPrefix(name, "replace") {
								for _, m := range g.Status.Members {
									s.Replace = append(s.Replace, v1alpha1.Replacement{Name: m.Name, MoRef: m.MoRef})
								}
							}
						})
						a, err := g.Sync(within(t))
						for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(5 * time.Second) {
							r.must(err)
							a, err = g.Sync(within(t))
						}
						costs := what.costs
						if surge > 0 || standby > 0 {
							costs = 0
						}
						if e := exist(); e.least < 4-costs {
							t.Errorf("only %d of 4 members ran", e.least)
						}
						if blocked := condition(a, v1alpha1.ConditionCloneBlocked); a.Status.Phase == v1alpha1.PhaseRunning || blocked.Status != "True" && name != "an unknown fault" {
							t.Errorf("%s: %s; CloneBlocked is %s", a.Status.Phase, a.Status.LastMessage, blocked.Status)
						}
						is := refs(r.members())
						for _, vm := range was {
							if is[vm.Name] != vm.Ref.Value {
								if costs--; costs < 0 && isOn(vm) {
									t.Errorf("%s is gone: %s", vm.Name, a.Status.LastMessage)
								}
							}
						}
					})
				})
			}
		}
	}
}
