package managed

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Question is what a VM asks. Until it is answered the VM stands still.
type Question struct {
	// Message is the id of the message, such as msg.uuid.altered.
	Message, Text string
	// Choices are the labels of the answers, whose keys are 0, 1, … The first one ends the task that waits for the answer with
	// RequestCanceled; with any other it goes on.
	Choices []string
}

// MovedOrCopied is what a VM asks at power-on whose files were moved, copied or registered again.
var MovedOrCopied = Question{Message: "msg.uuid.altered",
	Text:    "This virtual machine might have been moved or copied. If you don't know, answer \"I Copied It\".",
	Choices: []string{"Cancel", "I Moved It", "I Copied It"}}

// asked is a question that waits for its answer: the key of the choice. Objects' mu guards the map of them.
type asked struct {
	id       string
	choices  []string
	answered chan string
	left     chan struct{} // closed when the VM leaves the inventory
}

// AskAtPowerOn has the VMs that match ask, each time that a client powers them on: the task stands at 95 % until an operator answers
// (pyvmomi-community-samples#55). nil: no VM asks any more; those that do still wait. An admin is not asked.
func (v *Objects) AskAtPowerOn(match func(VM) bool, q Question) {
	v.world.Lock()
	defer v.world.Unlock()
	v.asks.match, v.asks.question = match, q
}

// Ask has the VM at a path, or of a name, ask now, with no task that waits.
func (v *Objects) Ask(where string, q Question) error {
	ref, err := v.Find(where)
	if err != nil {
		return fmt.Errorf("ask %s: %w", where, err)
	}
	v.world.Lock()
	defer v.world.Unlock()
	if vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine); ok {
		v.ask(v.world.Context(), vm, q)
	}
	return nil
}

// Asking are the names of the VMs that wait for an answer, in order.
func (v *Objects) Asking() (names []string) {
	for _, vm := range v.VMs() {
		v.mu.Lock()
		if v.asks.of[vm.Ref] != nil {
			names = append(names, vm.Path)
		}
		v.mu.Unlock()
	}
	return names
}

// asks are the questions of VMs: what is asked at power-on (the world guards it), and what waits for an answer (mu does).
type asks struct {
	match    func(VM) bool
	question Question
	of       map[types.ManagedObjectReference]*asked
	count    int
}

// ask puts a question. The caller holds the world.
func (v *Objects) ask(ctx *simulator.Context, vm *simulator.VirtualMachine, q Question) *asked {
	v.mu.Lock()
	v.asks.count++
	one := &asked{id: strconv.Itoa(v.asks.count), choices: q.Choices, answered: make(chan string, 1), left: make(chan struct{})}
	v.asks.of[vm.Self] = one
	v.mu.Unlock()
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

// AnswerVM answers.
//
// [doc] AnswerVM: InvalidArgument "if the questionId does not apply to this virtual machine"; ConcurrentAccess "if the question
// has been or is being answered by another thread or user".
func (vm *machine) AnswerVM(_ *simulator.Context, req *types.AnswerVM) soap.HasFault {
	refuse := func(fault types.BaseMethodFault) soap.HasFault {
		return &methods.AnswerVMBody{Fault_: simulator.Fault("", fault)}
	}
	vm.v.mu.Lock()
	q := vm.v.asks.of[vm.Self]
	choice, err := strconv.Atoi(req.AnswerChoice)
	switch {
	case q == nil || q.id != req.QuestionId:
		vm.v.mu.Unlock()
		return refuse(&types.InvalidArgument{InvalidProperty: "questionId"})
	case err != nil || choice < 0 || choice >= len(q.choices):
		vm.v.mu.Unlock()
		return refuse(&types.InvalidArgument{InvalidProperty: "answerChoice"})
	}
	delete(vm.v.asks.of, vm.Self)
	vm.v.mu.Unlock()
	vm.v.objects.AtomicUpdate(vm.Ctx, vm.VirtualMachine, []types.PropertyChange{
		{Name: "runtime.question", Val: nil}, {Name: "summary.runtime.question", Val: nil}})
	q.answered <- req.AnswerChoice
	return &methods.AnswerVMBody{Res: new(types.AnswerVMResponse)}
}

// stand lets a power-on of a client's stand at 95 % while its VM asks; false: this vCenter is closed.
func (vm *machine) stand(ctx *simulator.Context, j *job) (fault types.BaseMethodFault, goesOn bool) {
	v := vm.v
	v.world.Lock()
	off := vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff && v.objects.Get(vm.Self) != nil
	v.mu.Lock()
	asks := v.asks.of[vm.Self] != nil
	v.mu.Unlock()
	if world.IsAdmin(ctx.Session) || asks || !off || v.asks.match == nil || !v.matches(ctx, v.asks.match, vm.VirtualMachine) {
		v.world.Unlock()
		return nil, true
	}
	q := v.ask(ctx, vm.VirtualMachine, v.asks.question)
	v.world.Unlock()
	v.objects.WithLock(ctx, j.Self, func() {
		v.objects.Update(ctx, j, []types.PropertyChange{{Name: "info.progress", Val: int32(95)}})
	})
	select {
	case answer := <-q.answered:
		if answer == "0" {
			return new(types.RequestCanceled), true
		}
		return nil, true
	case <-q.left:
		return &types.ManagedObjectNotFound{Obj: vm.Self}, true
	case <-v.world.Ctx.Done():
		return nil, false
	}
}

// busy refuses what a VM that asks does not take.
func (v *Objects) busy(w work) types.BaseMethodFault {
	if !slices.Contains([]Kind{PowerOn, PowerOff, Suspend, Reset, Reconfigure, Destroy, Relocate}, w.kind) {
		return nil
	}
	return v.mustNotAsk(w.entity.Reference())
}

// mustNotAsk refuses a VM that asks.
//
// [doc] PowerOnVM_Task, ReconfigVM_Task, Destroy_Task: TaskInProgress "if the virtual machine is busy".
func (v *Objects) mustNotAsk(vm types.ManagedObjectReference) types.BaseMethodFault {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asks.of[vm] == nil {
		return nil
	}
	return &types.TaskInProgress{}
}
