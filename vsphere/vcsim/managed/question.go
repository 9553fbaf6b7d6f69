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

// pendingQuestion is a question without an answer yet; an answer is the key of a choice. Objects.mu guards the map of them.
type pendingQuestion struct {
	id       string
	choices  []string
	answered chan string
	removed  chan struct{} // closed when the VM leaves the inventory
}

// AskAtPowerOn makes matching VMs raise a question whenever a client powers them on: the task waits at 95 % for an operator's answer
// (pyvmomi-community-samples#55). After nil, no VM raises one, but raised ones stay. A power-on by Admin raises none.
func (v *Objects) AskAtPowerOn(match func(VM) bool, q Question) {
	v.world.Lock()
	defer v.world.Unlock()
	v.questions.match, v.questions.question = match, q
}

// Ask raises a question of the VM with a path or name now, without a waiting task.
func (v *Objects) Ask(where string, q Question) error {
	ref, err := v.Find(where)
	if err != nil {
		return fmt.Errorf("ask %s: %w", where, err)
	}
	v.world.Lock()
	defer v.world.Unlock()
	if vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine); ok {
		v.raise(v.world.Context(), vm, q)
	}
	return nil
}

// Asking lists the paths of the VMs with a question, sorted.
func (v *Objects) Asking() (names []string) {
	for _, vm := range v.VMs() {
		v.mu.Lock()
		if v.questions.pending[vm.Ref] != nil {
			names = append(names, vm.Path)
		}
		v.mu.Unlock()
	}
	return names
}

// questions are the question for power-ons (guarded by the world lock) and the pending ones (guarded by mu).
type questions struct {
	match    func(VM) bool
	question Question
	pending  map[types.ManagedObjectReference]*pendingQuestion
	count    int
}

// raise raises a question. The caller holds the world lock.
func (v *Objects) raise(ctx *simulator.Context, vm *simulator.VirtualMachine, q Question) *pendingQuestion {
	v.mu.Lock()
	v.questions.count++
	one := &pendingQuestion{id: strconv.Itoa(v.questions.count), choices: q.Choices, answered: make(chan string, 1), removed: make(chan struct{})}
	v.questions.pending[vm.Self] = one
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

// AnswerVM answers a question.
//
// [doc] AnswerVM: InvalidArgument "if the questionId does not apply to this virtual machine"; ConcurrentAccess "if the question
// has been or is being answered by another thread or user".
func (vm *machine) AnswerVM(_ *simulator.Context, req *types.AnswerVM) soap.HasFault {
	refuse := func(fault types.BaseMethodFault) soap.HasFault {
		return &methods.AnswerVMBody{Fault_: simulator.Fault("", fault)}
	}
	vm.v.mu.Lock()
	q := vm.v.questions.pending[vm.Self]
	choice, err := strconv.Atoi(req.AnswerChoice)
	switch {
	case q == nil || q.id != req.QuestionId:
		vm.v.mu.Unlock()
		return refuse(&types.InvalidArgument{InvalidProperty: "questionId"})
	case err != nil || choice < 0 || choice >= len(q.choices):
		vm.v.mu.Unlock()
		return refuse(&types.InvalidArgument{InvalidProperty: "answerChoice"})
	}
	delete(vm.v.questions.pending, vm.Self)
	vm.v.mu.Unlock()
	vm.v.objects.AtomicUpdate(vm.Ctx, vm.VirtualMachine, []types.PropertyChange{
		{Name: "runtime.question", Val: nil}, {Name: "summary.runtime.question", Val: nil}})
	q.answered <- req.AnswerChoice
	return &methods.AnswerVMBody{Res: new(types.AnswerVMResponse)}
}

// awaitAnswer raises the question of a client's power-on and waits at 95 % for the answer; proceed is false if this vCenter is closed.
func (vm *machine) awaitAnswer(ctx *simulator.Context, j *job) (fault types.BaseMethodFault, proceed bool) {
	v := vm.v
	v.world.Lock()
	off := vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff && v.objects.Get(vm.Self) != nil
	v.mu.Lock()
	pending := v.questions.pending[vm.Self] != nil
	v.mu.Unlock()
	if world.IsAdmin(ctx.Session) || pending || !off || v.questions.match == nil || !v.matches(ctx, v.questions.match, vm.VirtualMachine) {
		v.world.Unlock()
		return nil, true
	}
	q := v.raise(ctx, vm.VirtualMachine, v.questions.question)
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
	case <-q.removed:
		return &types.ManagedObjectNotFound{Obj: vm.Self}, true
	case <-v.world.Ctx.Done():
		return nil, false
	}
}

// checkBusy rejects tasks that a VM with a question does not allow.
func (v *Objects) checkBusy(w work) types.BaseMethodFault {
	if !slices.Contains([]Kind{PowerOn, PowerOff, Suspend, Reset, Reconfigure, Destroy, Relocate}, w.kind) {
		return nil
	}
	return v.mustHaveNoQuestion(w.entity.Reference())
}

// mustHaveNoQuestion rejects a VM with a question.
//
// [doc] PowerOnVM_Task, ReconfigVM_Task, Destroy_Task: TaskInProgress "if the virtual machine is busy".
func (v *Objects) mustHaveNoQuestion(vm types.ManagedObjectReference) types.BaseMethodFault {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.questions.pending[vm] == nil {
		return nil
	}
	return &types.TaskInProgress{}
}
