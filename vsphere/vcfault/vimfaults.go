package vcfault

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/secret"
)

// vimFault classifies vCenter's faults: those of calls and tasks, and the causes inside them. The outermost fault comes first, because it is about
// the operation; but a fault whose row is a fallback gives way to a cause whose row is not.
func vimFault(err error) (plan.Fault, bool) {
	tree, carrier := treeOf(err)
	if len(tree) == 0 {
		return plan.Fault{}, false
	}
	for _, fallback := range []bool{false, true} {
		for i, f := range tree {
			r := rowOf(reflect.TypeOf(f.BaseMethodFault))
			if r == nil || r.words.fallback != fallback {
				continue
			}
			words := r.words.about(f.BaseMethodFault)
			switch {
			case fallback:
				words = "vCenter says: " + tree.text(words+" ("+typeName(f.BaseMethodFault)+").")
			case len(tree.causes(i)) > 0:
				words += " vCenter says: " + steadyCauses(r.reason, tree.causes(i))
			}
			return plan.Fault{Reason: r.reason, Message: words, NeedsOperator: bool(r.who), Scope: r.words.depends, Object: objectOf(f.BaseMethodFault)}, true
		}
	}
	return internal(tree.text(carrier.Error())), true
}

// objectOf returns the missing privileges and the object that they are missing on, which the step does not name. It leaves out objects of which
// each group has its own.
func objectOf(f types.BaseMethodFault) string {
	no, is := f.(types.BaseNoPermission)
	if !is {
		return ""
	}
	var texts []string
	for _, l := range lacksOf(no) {
		switch {
		case l.On == nil, l.On.Type == "Folder", l.On.Type == "VirtualMachine", l.On.Type == "Task":
			texts = append(texts, l.ID)
		default:
			texts = append(texts, l.ID+" "+l.On.String())
		}
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ", ")
}

// Refused reports whether an error means that a call had no effect: vCenter answered with a fault, or the server did not send the call.
func Refused(err error) bool {
	var own *Error
	return len(faultsIn(err)) > 0 || errors.As(err, &own) && own.Err == nil
}

// said is a fault and vCenter's message for it.
type said struct {
	types.BaseMethodFault
	text string
}

// faultTree has the faults in an error from the outside in. If a fault says that no host was left, the reasons of the hosts come before it, because
// they say more.
type faultTree []said

// treeOf returns the faults in an error's tree, and the error that has them.
func treeOf(err error) (tree faultTree, carrier error) {
	if carrier = carrierIn(err); carrier == nil {
		return nil, nil
	}
	fault.In(carrier, func(f types.BaseMethodFault, text string, _ []types.LocalizableMessage) bool {
		tree = append(tree, said{f, text})
		for _, host := range reasonsOfHosts(f) {
			if host.Fault != nil {
				tree = append(tree, said{host.Fault, host.LocalizedMessage})
			}
		}
		return false
	})
	if len(tree) > 0 && tree[0].text == "" { // the message of a call's fault is in the error around it
		tree[0].text = strings.TrimPrefix(carrier.Error(), "ServerFaultCode: ")
	}
	if len(tree) > 1 && len(reasonsOfHosts(tree[0].BaseMethodFault)) > 0 {
		tree = append(tree[1:], tree[0])
	}
	return tree, carrier
}

// reasonsOfHosts returns the reason of each host that cannot run the VM.
func reasonsOfHosts(f types.BaseMethodFault) []types.LocalizedMethodFault {
	switch f := f.(type) {
	case *types.NoCompatibleHost:
		return f.Error
	case *types.GenericDrsFault:
		return f.HostFaults
	}
	return nil
}

// BreaksRule reports whether vCenter refused to place a VM because of a DRS rule that keeps VMs apart or together, and ours accepts the rule's name. A
// fault that names no rule, or that gives no reason for any host, counts, too.
func BreaksRule(err error, ours func(rule string) bool) bool {
	for _, f := range faultsIn(err) {
		switch f := f.(type) {
		case *types.RuleViolation:
			if f.Rule == nil || f.Rule.GetClusterRuleInfo().Name == "" || ours(f.Rule.GetClusterRuleInfo().Name) {
				return true
			}
		case *types.NoCompatibleHost, *types.GenericDrsFault:
			if len(reasonsOfHosts(f)) == 0 {
				return true
			}
		}
	}
	return false
}

// faultsIn returns the faults in an error's tree from the outside in.
func faultsIn(err error) (faults []types.BaseMethodFault) {
	tree, _ := treeOf(err)
	for _, f := range tree {
		faults = append(faults, f.BaseMethodFault)
	}
	return faults
}

// causes returns vCenter's messages about the cause of the fault at i: those of all faults (MethodFault.faultMessage, where vCenter puts the messages
// of hosts and vSAN: vmware/vic#7634, #8040), and those of the faults inside that one.
func (t faultTree) causes(i int) (texts []string) {
	hosts := len(reasonsOfHosts(t[len(t)-1].BaseMethodFault)) > 0
	for j, f := range t {
		if hosts && i < len(t)-1 && j != i {
			continue // other hosts have other reasons
		}
		if j > i || hosts && i == len(t)-1 && j < i {
			texts = append(texts, f.text)
		}
		texts = append(texts, f.messages()...)
	}
	texts = slices.DeleteFunc(texts, wordless)
	if hosts {
		slices.Sort(texts) // vCenter lists hosts in any order
	}
	return texts
}

// text returns all messages of vCenter, or otherwise if there are none.
func (t faultTree) text(otherwise string) string {
	var texts []string
	for _, f := range t {
		texts = append(append(texts, f.text), f.messages()...)
	}
	if texts = slices.DeleteFunc(texts, wordless); len(texts) == 0 {
		return Steady(otherwise)
	}
	return joined(texts)
}

// messages returns the messages of a fault, and the fields of it that have a cause as text.
func (f said) messages() (texts []string) {
	for _, m := range f.GetMethodFault().FaultMessage {
		texts = append(texts, m.Message)
	}
	switch f := f.BaseMethodFault.(type) {
	case *types.GenericVmConfigFault:
		texts = append(texts, f.Reason)
	case *types.SystemError:
		texts = append(texts, f.Reason)
	case *types.PlatformConfigFault:
		texts = append(texts, f.Text)
	}
	return texts
}

// wordless reports whether a text has no message for people: govmomi's simulator writes the type in its place.
func wordless(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || strings.HasPrefix(text, "*types.")
}

// steadyCauses joins causes to one text. It drops the amounts of missing resources, which differ from try to try.
func steadyCauses(reason string, texts []string) string {
	said := joined(texts)
	if reason == ReasonResourceLimit || reason == ReasonDatastoreFull {
		said = amount.ReplaceAllString(said, "…")
	}
	return said
}

var amount = regexp.MustCompile(`\b[0-9]+([.,][0-9]+)*\b`)

// joined joins texts to one, each once and as a sentence. If the result is too long, joined leaves out texts after the first and keeps the last ones:
// vCenter begins with what failed and ends with why.
func joined(texts []string) string {
	var kept []string
	for _, text := range texts {
		text = Steady(text)
		if slices.ContainsFunc(kept, func(k string) bool { return strings.Contains(k, strings.TrimRight(text, ".")) }) {
			continue
		}
		kept = append(kept, text)
	}
	for i := range len(kept) - 1 {
		if !strings.HasSuffix(kept[i], ".") && !strings.HasSuffix(kept[i], "!") && !strings.HasSuffix(kept[i], "…") {
			kept[i] += "."
		}
	}
	said := strings.Join(kept, " ")
	for len(said) > messageMax && len(kept) > 2 {
		kept = slices.Delete(kept, 1, 2)
		said = kept[0] + " … " + strings.Join(kept[1:], " ")
	}
	return plan.Bounded(said, messageMax)
}

// carrierIn finds the error in the tree that carries a vCenter fault, or nil. (fault.In would do that too, but
// panics if Unwrap returns nil, as a net.DNSError's may.)
func carrierIn(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Fault() types.BaseMethodFault }:
		return err
	case interface{ Unwrap() error }:
		return carrierIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if carrier := carrierIn(one); carrier != nil {
				return carrier
			}
		}
	}
	return nil
}

// varying matches the parts of vCenter's messages that differ from try to try: ids of tasks, sessions, operations and new VMs, UUIDs, memory
// addresses, times, and large numbers such as bytes and process ids.
var varying = regexp.MustCompile(`(?i)\b(task|session|op(eration)?id)[-=:\[ ]+['"]?[0-9][0-9a-z-]*\]?['"]?` +
	`|\bvirtualmachine:vm-[0-9]+\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0x[0-9a-f]+\b` +
	`|\b[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(z|[+-][0-9]{2}:?[0-9]{2})?|\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?\b|\b[0-9]{5,}\b`)

// messageMax bounds a message in a status, in bytes.
const messageMax = 600

// Steady makes a message of vCenter fit for a status: one line, equal for equal failures, without the server's secrets.
func Steady(message string) string {
	message = secret.Clean(message) // before the cut, which could split a secret
	return plan.Bounded(strings.Join(strings.Fields(varying.ReplaceAllString(message, "…")), " "), messageMax)
}
