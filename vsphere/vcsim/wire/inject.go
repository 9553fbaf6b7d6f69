package wire

import (
	"maps"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// callBreak is a break that tests inject into the calls of all wires. The simulator's own fault injection cannot withdraw a single rule,
// and it applies to Admin, too.
type callBreak struct {
	world.Repeats
	method string
	how    Break
}

// FailCall makes this many calls of a SOAP method ("Login", "CloneVM_Task", "WaitForUpdatesEx", ...), or of a REST operation as Calls names
// it, return a fault without any effect; 0: all calls.
func (n *Network) FailCall(method string, fault types.BaseMethodFault, times int) {
	n.breakCalls(method, times, Break{Kind: Faulted, Fault: fault})
}

// LoseReply cuts the connection instead of answering this many calls of a SOAP method, after their execution; 0: all calls.
func (n *Network) LoseReply(method string, times int) {
	n.breakCalls(method, times, Break{Kind: ReplyLost})
}

func (n *Network) breakCalls(method string, times int, how Break) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breaks = append(n.breaks, &callBreak{method: method, how: how, Repeats: world.NewRepeats(times)})
}

// HealCalls withdraws FailCall and LoseReply.
func (n *Network) HealCalls() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breaks = nil
}

// Calls counts the calls so far by SOAP method, without Admin's. REST calls have their method and path without ids: "POST
// /rest/com/vmware/cis/tagging/tag-association/id:?~action=attach".
func (n *Network) Calls() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.calls)
}

// nextBreak counts a call and returns the break injected for it.
func (n *Network) nextBreak(method string) Break {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[method]++
	i := slices.IndexFunc(n.breaks, func(o *callBreak) bool { return o.method == method && o.Take() })
	if i < 0 {
		return Break{}
	}
	return n.breaks[i].how
}
