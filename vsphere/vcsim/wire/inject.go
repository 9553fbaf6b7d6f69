package wire

import (
	"maps"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// callOrder is a fault that tests have ordered for the calls of all wires. The simulator has fault injection of its own, for
// calls only, but it has no way to withdraw one rule among others, and Admin would stumble over it.
type callOrder struct {
	world.Repeats
	method string
	how    Break
}

// FailCall makes that many calls of a SOAP method ("Login", "CloneVM_Task", "WaitForUpdatesEx", ...), or of a
// REST one as Calls names it, answer a fault; times 0: all of them. Nothing is carried out.
func (n *Network) FailCall(method string, fault types.BaseMethodFault, times int) {
	n.orderCalls(method, times, Break{Kind: Faulted, Fault: fault})
}

// LoseReply makes that many calls of a SOAP method be carried out without an answer: the connection
// is cut instead; times 0: all of them.
func (n *Network) LoseReply(method string, times int) {
	n.orderCalls(method, times, Break{Kind: ReplyLost})
}

func (n *Network) orderCalls(method string, times int, how Break) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.orders = append(n.orders, &callOrder{method: method, how: how, Repeats: world.NewRepeats(times)})
}

// HealCalls withdraws what FailCall and LoseReply ordered.
func (n *Network) HealCalls() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.orders = nil
}

// Calls counts the calls so far by SOAP method, without Admin's. REST calls are named by their method and
// path, without the ids in it: "POST /rest/com/vmware/cis/tagging/tag-association/id:?~action=attach".
func (n *Network) Calls() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.calls)
}

// ordered counts a call, and says what FailCall and LoseReply have ordered for it.
func (n *Network) ordered(method string) Break {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[method]++
	i := slices.IndexFunc(n.orders, func(o *callOrder) bool { return o.method == method && o.Take() })
	if i < 0 {
		return Break{}
	}
	return n.orders[i].how
}
