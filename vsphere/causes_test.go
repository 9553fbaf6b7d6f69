package vsphere

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// explained changes one property of a VM, or of a host, in the reads that look for a cause: others ask for the names of VMs, and for the datastores of hosts.
func explained(kind, path string, value any) func(*vim.ObjectContent) {
	return func(o *vim.ObjectContent) {
		has := func(name string) bool {
			return slices.ContainsFunc(o.PropSet, func(p vim.DynamicProperty) bool { return p.Name == name })
		}
		if o.Obj.Type != kind || kind == "VirtualMachine" && has("name") || kind == "HostSystem" && (!has("name") || has("datastore")) {
			return
		}
		o.PropSet = append(slices.DeleteFunc(slices.Clone(o.PropSet), func(p vim.DynamicProperty) bool { return p.Name == path }), vim.DynamicProperty{Name: path, Val: value})
	}
}

func TestARefusalByAStateNamesTheState(t *testing.T) {
	t.Parallel()
	yes := true
	for _, c := range []struct {
		kind, path string
		value      any
		operator   bool
		says       []string
	}{
		{"VirtualMachine", "config.template", true, true, []string{"is a template", "convert it back"}},
		{"VirtualMachine", "runtime.connectionState", vim.VirtualMachineConnectionStateDisconnected, false, []string{"can't reach", "DC0_C0_H"}},
		{"VirtualMachine", "runtime.connectionState", vim.VirtualMachineConnectionStateInaccessible, true, []string{"out of reach", "datastore"}},
		{"VirtualMachine", "runtime.connectionState", vim.VirtualMachineConnectionStateOrphaned, true, []string{"register it again"}},
		{"VirtualMachine", "runtime.connectionState", vim.VirtualMachineConnectionStateInvalid, true, []string{"register it again"}},
		{"VirtualMachine", "runtime.powerState", vim.VirtualMachinePowerStateSuspended, true, []string{"suspended"}},
		{"VirtualMachine", "runtime.question", vim.VirtualMachineQuestionInfo{}, true, []string{"answer its question"}},
		{"VirtualMachine", "runtime.faultToleranceState", vim.VirtualMachineFaultToleranceStateRunning, true, []string{"Fault Tolerance"}},
		{"VirtualMachine", "runtime.consolidationNeeded", yes, true, []string{"consolidate them"}},
		{"VirtualMachine", "runtime.snapshotInBackground", yes, false, []string{"snapshot"}},
		{"VirtualMachine", "runtime.paused", yes, false, []string{"tries again"}},
		{"HostSystem", "runtime.connectionState", vim.HostSystemConnectionStateNotResponding, false, []string{"can't reach", "DC0_C0_H"}},
		{"HostSystem", "runtime.connectionState", vim.HostSystemConnectionStateDisconnected, false, []string{"can't reach", "DC0_C0_H"}},
		{"HostSystem", "runtime.inMaintenanceMode", true, true, []string{"DC0_C0_H", "maintenance mode", "migrate"}},
		{"HostSystem", "runtime.standbyMode", string(vim.HostStandbyModeIn), true, []string{"DC0_C0_H", "standby", "power the host on"}},
		{"HostSystem", "name", "esx-1", false, nil}, // no cause is seen
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Hosts: 1}) // the VM has no other host to go to
				w.must(w.SetDRS(firstCluster, vcsim.DRS{Off: true}))
				p := w.start()
				vm := p.member(0)
				for fault, reason := range map[vim.BaseMethodFault]string{new(vim.InvalidState): vcfault.ReasonInvalidState, new(vim.NotSupported): vcfault.ReasonNotSupported} {
					w.ChangeReads(explained(c.kind, c.path, c.value))
					w.FailTask(vcsim.PowerOn, nil, fault, 1)
					f := p.fault(actionOn(plan.PowerOn, vm))
					w.ChangeReads(nil)
					operator := c.operator || c.says == nil && reason == vcfault.ReasonNotSupported
					if f.Reason != reason || f.NeedsOperator != operator || !vctest.Mentions(f.Message, c.says...) || strings.Contains(f.Message, "%") {
						t.Errorf("got the fault %+v; want %s, for an operator %t, with %q", f, reason, operator, c.says)
					}
				}
			})
		})
	}
}
