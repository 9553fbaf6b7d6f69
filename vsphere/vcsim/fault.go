package vcsim

import (
	"maps"
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// faults are what tests have ordered for all wires. The simulator has fault injection of its own, for calls only,
// but it has no way to withdraw one rule among others, and Admin would stumble over it.
type faults struct {
	calls, tasks []*order
	denied       map[string]string // privilege by SOAP method
}

// order is one ordered fault, good for so many times; forever if that began at 0.
type order struct {
	method  string // of calls
	how     Break
	kind    Kind // of tasks
	match   func(name string) bool
	fault   types.BaseMethodFault
	left    int
	forever bool
}

func (o *order) take() bool {
	if o.left == 0 && !o.forever {
		return false
	}
	o.left--
	return true
}

// FailCall makes that many calls of a SOAP method ("Login", "CloneVM_Task", "WaitForUpdatesEx", ...), or of a
// REST one as Calls names it, answer a fault; times 0: all of them. Nothing is carried out.
func (v *VCenter) FailCall(method string, fault types.BaseMethodFault, times int) {
	v.orderCalls(method, times, Break{Kind: Faulted, Fault: fault})
}

// LoseReply makes that many calls of a SOAP method be carried out without an answer: the connection
// is cut instead; times 0: all of them.
func (v *VCenter) LoseReply(method string, times int) {
	v.orderCalls(method, times, Break{Kind: ReplyLost})
}

func (v *VCenter) orderCalls(method string, times int, how Break) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults.calls = append(v.faults.calls, &order{method: method, how: how, left: times, forever: times == 0})
}

// FailTask makes that many tasks of a kind end in a fault, after their latency; times 0: all of them.
// match is given the name of the VM (of a clone: the new one), folder or cluster; nil: any. A ShutdownGuest
// that fails is a guest that does not halt.
func (v *VCenter) FailTask(kind Kind, match func(vmName string) bool, fault types.BaseMethodFault, times int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults.tasks = append(v.faults.tasks, &order{kind: kind, match: match, fault: fault, left: times, forever: times == 0})
}

// Deny takes a privilege away: the SOAP method answers NoPermission, naming it, until Allow.
func (v *VCenter) Deny(method, privilege string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.faults.denied == nil {
		v.faults.denied = make(map[string]string)
	}
	v.faults.denied[method] = privilege
}

// Allow gives back what Deny took.
func (v *VCenter) Allow(method string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.faults.denied, method)
}

// Heal withdraws all that FailCall, LoseReply, FailTask and Deny ordered.
func (v *VCenter) Heal() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults = faults{}
}

// Calls counts the calls so far by SOAP method, without Admin's. REST calls are named by their method and
// path, without the ids in it: "POST /rest/com/vmware/cis/tagging/tag-association/id:?~action=attach".
func (v *VCenter) Calls() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.calls)
}

// ordered counts a call, and says what FailCall and LoseReply have ordered for it.
func (v *VCenter) ordered(method string) Break {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls[method]++
	i := slices.IndexFunc(v.faults.calls, func(o *order) bool { return o.method == method && o.take() })
	if i < 0 {
		return Break{}
	}
	return v.faults.calls[i].how
}

func (f *faults) ofTask(kind Kind, name string) types.BaseMethodFault {
	i := slices.IndexFunc(f.tasks, func(o *order) bool {
		return o.kind == kind && (o.match == nil || o.match(name)) && o.take()
	})
	if i < 0 {
		return nil
	}
	return f.tasks[i].fault
}
