package vcsim

import (
	"slices"
	"strconv"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// power begins a task in which the simulator changes the power state.
func (vm *machine) power(kind Kind, call func(*simulator.Context) soap.HasFault) types.ManagedObjectReference {
	return vm.work(kind, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		return vm.changePower(ctx, func() soap.HasFault { return call(ctx) })
	})
}

// powerOn begins a power-on task with this kind.
func (vm *machine) powerOn(as Kind, parent string) types.ManagedObjectReference {
	vm.v.placement.starting[vm.Self] = true // DRS counts it on its host
	return vm.v.begin(vm.call, work{kind: PowerOn, as: as, parent: parent, entity: vm.VirtualMachine, name: vm.Name, pause: vm.awaitAnswer,
		end: func() { delete(vm.v.placement.starting, vm.Self) },
		do: func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
			fault := vm.v.fullHost(vm.VirtualMachine)
			if as == PowerOn {
				fault = vm.v.placeAlone(ctx, vm.VirtualMachine)
			}
			if fault == nil {
				fault = vm.v.disks.CheckPowerOn(vm.VirtualMachine)
			}
			if fault != nil {
				return nil, fault
			}
			return vm.changePower(ctx, func() soap.HasFault {
				return vm.VirtualMachine.PowerOnVMTask(ctx, &types.PowerOnVM_Task{This: vm.Self})
			})
		}})
}

func (vm *machine) changePower(ctx *simulator.Context, call func() soap.HasFault) (types.AnyType, types.BaseMethodFault) {
	before := vm.Runtime.PowerState
	res, fault := vm.v.inner(ctx, vm.Self, call)
	if vm.Runtime.PowerState != before {
		vm.v.powered(ctx, vm.VirtualMachine, before)
	}
	return res, fault
}

// powered updates what depends on a changed power state. The caller holds the world lock.
//
// [doc] VirtualMachineRuntimeInfo.bootTime: "updated when the virtual machine is powered on from the poweredOff state, and is cleared when
// the virtual machine is powered off ... not updated when a virtual machine is resumed". The simulator sets bootTime only in the summary and
// clears it at suspend.
//
// The changeVersion changes, too: vCenter writes the configuration file (seen in vmware/vic, pull request 2510).
func (v *inventory) powered(ctx *simulator.Context, vm *simulator.VirtualMachine, before types.VirtualMachinePowerState) {
	const on, off = types.VirtualMachinePowerStatePoweredOn, types.VirtualMachinePowerStatePoweredOff
	var changes []types.PropertyChange
	var boot types.AnyType
	if vm.Runtime.BootTime != nil {
		boot = *vm.Runtime.BootTime
	}
	now := vm.Runtime.PowerState
	switch {
	case now == on && before == off:
		boot = v.bootTime()
		v.disks.PoweredOn(vm)
		limit, increment := hotPlugMemory(vm.Config)
		changes = append(changes,
			types.PropertyChange{Name: "config.hardware.device", Val: rewritten(vm.Config.Hardware.Device)},
			types.PropertyChange{Name: "config.hardware.numCoresPerSocket", Val: coresAtPowerOn(vm.Config)},
			types.PropertyChange{Name: "config.hotPlugMemoryLimit", Val: limit},
			types.PropertyChange{Name: "config.hotPlugMemoryIncrementSize", Val: increment})
	case now == off:
		boot = nil
		changes = append(changes,
			types.PropertyChange{Name: "config.hotPlugMemoryLimit", Val: int64(0)},
			types.PropertyChange{Name: "config.hotPlugMemoryIncrementSize", Val: int64(0)})
	}
	v.objects.AtomicUpdate(ctx, vm, append(changes,
		types.PropertyChange{Name: "config.changeVersion", Val: laterVersion(vm)},
		types.PropertyChange{Name: "runtime.bootTime", Val: boot},
		types.PropertyChange{Name: "summary.runtime.bootTime", Val: boot}))
	if now == on {
		if v.customized[vm.Self] != nil { // the simulator reports the host name at once, and a real guest only after its customization
			v.report(ctx, vm, func(g *types.GuestInfo) { setAddress(g, ""); g.HostName = "" })
			v.setCustomizationStatus(ctx, vm, types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_PENDING)
		}
		v.boot(ctx, vm)
	} else {
		v.halt(ctx, vm)
	}
}

// bootTime returns the current time in microseconds, as vCenter reports it, later than all earlier boot times.
func (v *inventory) bootTime() time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(v.lastBoot) {
		now = v.lastBoot.Add(time.Microsecond)
	}
	v.lastBoot = now
	return now
}

// PowerOnVMTask has a latency.
func (vm *machine) PowerOnVMTask(*simulator.Context, *types.PowerOnVM_Task) soap.HasFault {
	return &methods.PowerOnVM_TaskBody{Res: &types.PowerOnVM_TaskResponse{Returnval: vm.powerOn(PowerOn, "")}}
}

// PowerOffVMTask has a latency.
func (vm *machine) PowerOffVMTask(_ *simulator.Context, req *types.PowerOffVM_Task) soap.HasFault {
	return &methods.PowerOffVM_TaskBody{Res: &types.PowerOffVM_TaskResponse{
		Returnval: vm.power(PowerOff, func(ctx *simulator.Context) soap.HasFault { return vm.VirtualMachine.PowerOffVMTask(ctx, req) }),
	}}
}

// ResetVMTask restarts the guest; the power state does not change. The simulator powers the VM off and on.
//
// [doc] ResetVM_Task: "Resets power on this virtual machine. If the current state is poweredOn, then
// this method first performs powerOff(hard)"; InvalidPowerState if it is suspended or powered off.
func (vm *machine) ResetVMTask(_ *simulator.Context, _ *types.ResetVM_Task) soap.HasFault {
	ref := vm.work(Reset, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		if fault := mustBeOn(vm.VirtualMachine); fault != nil {
			return nil, fault
		}
		vm.v.reboot(ctx, vm.VirtualMachine)
		return nil, nil
	})
	return &methods.ResetVM_TaskBody{Res: &types.ResetVM_TaskResponse{Returnval: ref}}
}

// ShutdownGuest returns at once; the guest halts after the latency, and its host reports that.
//
// [doc] ShutdownGuest: "Issues a command to the guest operating system ... Returns immediately and does
// not wait for the guest"; ToolsUnavailable if VMware Tools do not run.
func (vm *machine) ShutdownGuest(_ *simulator.Context, req *types.ShutdownGuest) soap.HasFault {
	fault := vm.askGuest(ShutdownGuest, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		defer asHost(ctx)()
		return vm.changePower(ctx, func() soap.HasFault { return vm.VirtualMachine.ShutdownGuest(ctx, req) })
	})
	if fault != nil {
		return &methods.ShutdownGuestBody{Fault_: simulator.Fault("", fault)}
	}
	return &methods.ShutdownGuestBody{Res: new(types.ShutdownGuestResponse)}
}

// askGuest makes the guest do something after the latency, unless the guest hangs, or the VM was reset or powered off before. The caller holds
// the world lock.
func (vm *machine) askGuest(kind Kind, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.BaseMethodFault {
	if fault := mustBeOn(vm.VirtualMachine); fault != nil {
		return fault
	}
	if !toolsRun(vm.VirtualMachine) {
		return new(types.ToolsUnavailable)
	}
	before := vm.v.guestStates[vm.Self]
	vm.work(kind, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		if vm.v.guestStates[vm.Self] != before || vm.v.matches(vm.v.behavior.HangShutdown, vm.VirtualMachine) {
			return nil, nil
		}
		return do(ctx)
	})
	return nil
}

func mustBeOn(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
		return nil
	}
	return &types.InvalidPowerState{
		RequestedState: types.VirtualMachinePowerStatePoweredOn, ExistingState: vm.Runtime.PowerState,
	}
}

func mustBeOff(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
		return nil
	}
	return &types.InvalidPowerState{
		RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: vm.Runtime.PowerState,
	}
}

// Question is a question of a VM, which blocks the VM until it is answered.
type Question struct {
	// Message is the id of the message, such as msg.uuid.altered.
	Message, Text string
	// Choices are the labels of the answers, with the keys 0, 1, … The first one fails the waiting task with RequestCanceled; with any
	// other it continues.
	Choices []string
}

// MovedOrCopied is the question at power-on of a VM whose files were moved, copied or registered again.
var MovedOrCopied = Question{Message: "msg.uuid.altered",
	Text:    "This virtual machine might have been moved or copied. If you don't know, answer \"I Copied It\".",
	Choices: []string{"Cancel", "I Moved It", "I Copied It"}}

// pendingQuestion is a question without an answer yet; an answer is the key of a choice. The world lock guards the map of them.
type pendingQuestion struct {
	id       string
	choices  []string
	answered chan string
	removed  chan struct{} // closed when the VM leaves the inventory
}

// Ask raises a question of the VM with a path or name now, without a waiting task.
func (v *inventory) Ask(where string, q Question) error {
	return v.changeVM("ask", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.raise(ctx, vm, q)
		return nil
	})
}

// Asking lists the paths of the VMs with a question, sorted.
func (v *inventory) Asking() (names []string) {
	v.world.Lock()
	defer v.world.Unlock()
	for ref := range v.questions.pending {
		names = append(names, v.world.Path(ref))
	}
	slices.Sort(names)
	return names
}

// questions are the pending questions. The world lock guards them.
type questions struct {
	pending map[types.ManagedObjectReference]*pendingQuestion
	count   int
}

// raise raises a question. The caller holds the world lock.
func (v *inventory) raise(ctx *simulator.Context, vm *simulator.VirtualMachine, q Question) *pendingQuestion {
	v.questions.count++
	one := &pendingQuestion{id: strconv.Itoa(v.questions.count), choices: q.Choices, answered: make(chan string, 1), removed: make(chan struct{})}
	v.questions.pending[vm.Self] = one
	info := types.VirtualMachineQuestionInfo{Id: one.id, Text: q.Message + ":" + q.Text,
		Choice:  types.ChoiceOption{DefaultIndex: int32(len(q.Choices) - 1)},
		Message: []types.VirtualMachineMessage{{Id: q.Message, Text: q.Text}}}
	for i, label := range q.Choices {
		info.Choice.ChoiceInfo = append(info.Choice.ChoiceInfo, &types.ElementDescription{
			Description: types.Description{Label: label, Summary: label}, Key: strconv.Itoa(i)})
	}
	v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "runtime.question", Val: info}, {Name: "summary.runtime.question", Val: info}})
	return one
}

// AnswerVM answers a question.
//
// [doc] AnswerVM: InvalidArgument "if the questionId does not apply to this virtual machine"; ConcurrentAccess "if the question
// has been or is being answered by another thread or user".
func (vm *machine) AnswerVM(_ *simulator.Context, req *types.AnswerVM) soap.HasFault {
	refuse := func(fault types.BaseMethodFault) soap.HasFault {
		return &methods.AnswerVMBody{Fault_: simulator.Fault("", fault)}
	}
	q := vm.v.questions.pending[vm.Self]
	choice, err := strconv.Atoi(req.AnswerChoice)
	switch {
	case q == nil || q.id != req.QuestionId:
		return refuse(&types.InvalidArgument{InvalidProperty: "questionId"})
	case err != nil || choice < 0 || choice >= len(q.choices):
		return refuse(&types.InvalidArgument{InvalidProperty: "answerChoice"})
	}
	delete(vm.v.questions.pending, vm.Self)
	vm.v.objects.AtomicUpdate(vm.ctx, vm.VirtualMachine, []types.PropertyChange{
		{Name: "runtime.question", Val: nil}, {Name: "summary.runtime.question", Val: nil}})
	q.answered <- req.AnswerChoice
	return &methods.AnswerVMBody{Res: new(types.AnswerVMResponse)}
}

// awaitAnswer raises the question of a client's power-on and waits at 95 % for the answer; proceed is false if this vCenter is closed.
func (vm *machine) awaitAnswer(ctx *simulator.Context, j *job) (fault types.BaseMethodFault, proceed bool) {
	v := vm.v
	v.world.Lock()
	off := vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff && v.objects.Get(vm.Self) != nil
	pending := v.questions.pending[vm.Self] != nil
	if isAdmin(ctx.Session) || pending || !off || !v.matches(v.behavior.AskAtPowerOn, vm.VirtualMachine) {
		v.world.Unlock()
		return nil, true
	}
	q := v.raise(ctx, vm.VirtualMachine, v.behavior.Question)
	v.world.Unlock()
	v.show(ctx, j, types.PropertyChange{Name: "info.progress", Val: int32(95)})
	select {
	case answer := <-q.answered:
		if answer == "0" {
			return new(types.RequestCanceled), true
		}
		return nil, true
	case <-q.removed:
		return &types.ManagedObjectNotFound{Obj: vm.Self}, true
	case <-v.world.Ctx.Done():
		return nil, false
	}
}

// checkBusy rejects tasks that a VM with a question does not allow.
func (v *inventory) checkBusy(w work) types.BaseMethodFault {
	if !slices.Contains([]Kind{PowerOn, PowerOff, Reset, Reconfigure, Destroy, Relocate}, w.kind) {
		return nil
	}
	return v.mustHaveNoQuestion(w.entity.Reference())
}

// mustHaveNoQuestion rejects a VM with a question.
//
// [doc] PowerOnVM_Task, ReconfigVM_Task, Destroy_Task: TaskInProgress "if the virtual machine is busy".
func (v *inventory) mustHaveNoQuestion(vm types.ManagedObjectReference) types.BaseMethodFault {
	if v.questions.pending[vm] == nil {
		return nil
	}
	return &types.TaskInProgress{}
}
