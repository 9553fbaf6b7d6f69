// This file names the cause of a refusal for which vCenter says only that something's state does not allow the step, or that it is not supported: a
// property of the member, or of its host.

package vsphere

import (
	"context"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// refused is what can be the cause of a refusal: the state of a VM and of its host.
type refused struct {
	template                      bool
	connection                    types.VirtualMachineConnectionState
	power                         types.VirtualMachinePowerState
	question                      bool
	consolidate, paused, snapshot bool
	faultTolerance                types.VirtualMachineFaultToleranceState

	host       string
	reach      types.HostSystemConnectionState
	maintained bool
	standby    string
}

func (x *refused) properties() session.Properties {
	return session.Properties{
		session.To("config.template", &x.template),
		session.To("runtime.connectionState", &x.connection),
		session.To("runtime.powerState", &x.power),
		session.Taking("runtime.question", func(types.VirtualMachineQuestionInfo) { x.question = true }),
		session.To("runtime.consolidationNeeded", &x.consolidate),
		session.To("runtime.paused", &x.paused),
		session.To("runtime.snapshotInBackground", &x.snapshot),
		session.To("runtime.faultToleranceState", &x.faultTolerance),
	}
}

func (x *refused) ofHost() session.Properties {
	return session.Properties{
		session.To("name", &x.host),
		session.To("runtime.connectionState", &x.reach),
		session.To("runtime.inMaintenanceMode", &x.maintained),
		session.To("runtime.standbyMode", &x.standby),
	}
}

// cause is a state that makes vCenter refuse steps. passes reports whether it ends without an operator.
type cause struct {
	is     func(*refused) bool
	passes bool
	says   string // with a place for the host's name, if it has one
}

// causes are in the order in which they explain a refusal: the first one that applies is named.
var causes = []cause{
	{func(x *refused) bool { return x.template }, false, "The VM is a template: convert it back to a VM."},
	{func(x *refused) bool {
		return x.reach == types.HostSystemConnectionStateNotResponding || x.reach == types.HostSystemConnectionStateDisconnected
	}, true, "vCenter can't reach the VM's host %s: check the host's connection."},
	{func(x *refused) bool {
		return x.connection == types.VirtualMachineConnectionStateOrphaned || x.connection == types.VirtualMachineConnectionStateInvalid
	}, false, "vCenter can't find or read the VM on its host %s: look at its files, and register it again."},
	{func(x *refused) bool { return x.connection == types.VirtualMachineConnectionStateInaccessible }, false, "The VM's files are out of reach of its host %s: look at the datastore."},
	{func(x *refused) bool { return x.connection == types.VirtualMachineConnectionStateDisconnected }, true, "vCenter can't reach the VM's host %s: check the host's connection."},
	{func(x *refused) bool { return x.maintained }, false, "The VM's host %s is in maintenance mode, and DRS did not choose another: end the maintenance, or migrate the VM to another host."},
	{func(x *refused) bool { return x.standby == string(types.HostStandbyModeIn) }, false, "The VM's host %s is in standby, and DRS did not wake it or choose another: power the host on, or migrate the VM to another host."},
	{func(x *refused) bool { return x.question }, false, "The VM waits for an answer: answer its question in vCenter."},
	{func(x *refused) bool {
		return x.faultTolerance != "" && x.faultTolerance != types.VirtualMachineFaultToleranceStateNotConfigured
	}, false, "vSphere Fault Tolerance is on for the VM, and does not allow this: turn it off for the VM."},
	{func(x *refused) bool { return x.snapshot || x.paused }, true, "vCenter writes a snapshot of the VM, or moves it: the server tries again."},
	{func(x *refused) bool { return x.power == types.VirtualMachinePowerStateSuspended }, false, "The VM is suspended: resume it, or power it off."},
	{func(x *refused) bool { return x.consolidate }, false, "The VM's disks need consolidation: consolidate them (Snapshots, Consolidate)."},
}

// nameCause rewrites an error that says only that a state does not allow a member's step, or that something is not supported. If no cause is seen, or
// vCenter doesn't answer, the error stays as it is.
func (c calls) nameCause(ctx context.Context, a plan.Action, e *vcfault.Error) *vcfault.Error {
	if e.Reason != vcfault.ReasonInvalidState && e.Reason != vcfault.ReasonNotSupported && (e.Reason != vcfault.ReasonHostNotConnected || e.NeedsOperator) || a.MoRef == "" || !a.ConcernsMember() {
		return e
	}
	var x refused
	if err := c.Call(ctx, func(ctx context.Context, s *session.Session) error { return x.read(ctx, s, inventory.VMRef(a.MoRef)) }); err != nil {
		return e
	}
	for _, cause := range causes {
		if !cause.is(&x) {
			continue
		}
		says := cause.says
		if strings.Contains(says, "%s") {
			says = fmt.Sprintf(says, x.host)
		}
		named := *e
		named.Message, named.NeedsOperator = says+" "+e.Message, !cause.passes
		return &named
	}
	return e
}

// read reads a VM and its host in one call.
func (x *refused) read(ctx context.Context, s *session.Session, vm types.ManagedObjectReference) error {
	objects, err := session.ReadObjects(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: vm, SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: session.VMType, Path: "runtime.host"}}}},
		PropSet:   []types.PropertySpec{{Type: session.VMType, PathSet: x.properties().Paths()}, {Type: "HostSystem", PathSet: x.ofHost().Paths()}},
	})
	for _, o := range objects {
		if o.Ref == vm {
			o.Into(x.properties())
		} else {
			o.Into(x.ofHost())
		}
	}
	return err
}
