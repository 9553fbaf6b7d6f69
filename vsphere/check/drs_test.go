package check

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestCheckReportsWhatChoosesTheHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		for says, d := range map[string]vcsim.DRS{
			"on in DC0_C0, fullyAutomated: DRS chooses":     {},
			"on in DC0_C0, partiallyAutomated: DRS chooses": {Level: types.DrsBehaviorPartiallyAutomated},
			"on in DC0_C0, manual: the server overrides":    {Level: types.DrsBehaviorManual},
			"off in DC0_C0: the server spreads clones over": {Off: true},
			"1 VMs of DC0_C0 override the automation level": {Levels: map[string]types.DrsBehavior{"vm-1": types.DrsBehaviorManual}},
		} {
			w.Must(w.SetDRS("/DC0/host/DC0_C0", d))
			r := w.checked(nil, Options{Templates: []string{"ubuntu"}})
			r.only()
			r.has("DRS", OK, says, "")
		}
	})
}

func TestDeepCheckPowersOnLikeTheServerWithAnyDRS(t *testing.T) {
	for seen, x := range map[string]struct {
		drs    vcsim.DRS
		result Result
	}{
		"by PowerOnMultiVM_Task, manual":                        {vcsim.DRS{Level: types.DrsBehaviorManual}, OK},
		"by PowerOnMultiVM_Task, fullyAutomated":                {vcsim.DRS{NoTasks: true}, OK},
		"by PowerOnVM_Task; the changeVersion changed":          {vcsim.DRS{Off: true}, OK},
		"by PowerOnVM_Task; the changeVersion changed, because": {vcsim.DRS{Unlicensed: true}, Warn},
	} {
		t.Run(seen, func(t *testing.T) {
			inDeepWorld(t, func(_ *testing.T, w *world) {
				w.Must(w.SetDRS("/DC0/host/DC0_C0", x.drs))
				r := w.checked(nil, deepOptions)
				r.only("deep: power-on")
				r.has("deep: power-on", x.result, seen, "")
				w.clean()
			})
		})
	}
}
