// This file puts into words what blocks members.

package tell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// withHelp adds a link to the documentation to the faults that an operator has to act on.
func withHelp(faults []plan.FaultOf) []plan.FaultOf {
	faults = slices.Clone(faults)
	for i := range faults {
		faults[i].Fault = faults[i].WithHelp()
	}
	return faults
}

// blocks is what one fault blocks: members and other VMs, by name, and the DRS rules.
type blocks struct {
	names  []string
	others bool // not all of names are those of members: one is a VM in quarantine, or one to be adopted
	rules  bool
}

// text names what is blocked; empty for the group.
func (b *blocks) text() (text string) {
	switch n := len(b.names); {
	case n == 1:
		text = b.names[0]
	case n > 1 && b.others:
		text = fmt.Sprintf("%d VMs (%s)", n, plan.AtMost(b.names, 3))
	case n > 1:
		text = fmt.Sprintf("%d members (%s)", n, plan.AtMost(b.names, 3))
	}
	switch {
	case !b.rules:
		return text
	case text == "":
		return "the group's DRS rules"
	}
	return text + " and the group's DRS rules"
}

// faultTexts lists the blocking faults, each once, with what it blocks. Faults that need an operator come first.
func (r *report) faultTexts(faults []plan.FaultOf) (texts []string) {
	var order []string
	whom := map[string]*blocks{}
	for _, f := range faultsInOrder(faults) {
		text := strings.TrimSuffix(f.Message, ".")
		if _, known := whom[text]; !known {
			order, whom[text] = append(order, text), &blocks{}
		}
		switch f.Who {
		case plan.FolderKey, plan.ConfirmKey:
		case plan.RulesKey:
			whom[text].rules = true
		default:
			whom[text].names = append(whom[text].names, r.nameOf(f.Who))
			whom[text].others = whom[text].others || !r.isMemberName(f.Who)
		}
	}
	for i, text := range order {
		if i == 3 && len(order) > 4 {
			return append(texts, fmt.Sprintf("and %d more reasons", len(order)-i))
		}
		if what := whom[text].text(); what != "" {
			text = what + ": " + afterColon(text)
		}
		texts = append(texts, text)
	}
	return texts
}

// nameOf returns a member's name for people, with its present name in vCenter if it was renamed there.
func (r *report) nameOf(who string) string {
	for i := range r.Members {
		if m := &r.Members[i]; m.Name == who && !m.Duplicate {
			return m.display()
		}
	}
	return who
}

// isMemberName reports whether a name is that of a member, "<group>-<ordinal>".
func (r *report) isMemberName(name string) bool {
	ordinal, is := strings.CutPrefix(name, r.Group.Name+"-")
	return is && strings.Trim(ordinal, "0123456789") == ""
}

// afterColon returns a sentence with a lower-case article, as it is written after a member's name and a colon.
func afterColon(text string) string {
	for _, first := range []string{"The ", "A ", "An ", "There ", "No "} {
		if rest, does := strings.CutPrefix(text, first); does {
			return strings.ToLower(first) + rest
		}
	}
	return text
}

// faultsInOrder sorts faults for the message: those that need an operator first, then by member. (They are found in another order
// while a step is tried again.)
func faultsInOrder(faults []plan.FaultOf) []plan.FaultOf {
	faults = slices.Clone(faults)
	slices.SortStableFunc(faults, func(a, b plan.FaultOf) int {
		return cmp.Or(comparePersons(a, b), cmp.Compare(len(a.Who), len(b.Who)), strings.Compare(a.Who, b.Who))
	})
	return faults
}

// comparePersons puts those first that need an operator.
func comparePersons(a, b plan.FaultOf) int {
	switch {
	case a.NeedsOperator == b.NeedsOperator:
		return 0
	case a.NeedsOperator:
		return -1
	}
	return 1
}

// customizationFault says what to do about a customization that failed.
func customizationFault(c plan.Customization) string {
	return "the guest customization failed, so the guest may have another name and other addresses: " +
		cmp.Or(c.Error, "vCenter does not say why") + ". Correct the customization specification and replace the member (spec.replace); or correct the guest, and power the VM off and on"
}

// untakenFault says what to look at where a guest reports other addresses than those that it was given.
func untakenFault(reported, untaken []string) string {
	return fmt.Sprintf("the guest reports %s, but not %s, which spec.networks gives to the member: check that the template applies guestinfo (cloud-init with the datasource VMware, without a network configuration in the template) or, with customizationSpec, what the guest customization did",
		plan.AtMost(reported, 3), plan.AtMost(untaken, 3))
}

// questionFault says that a VM waits for the answer to a question.
func questionFault(question string) string {
	return "the VM has a question, and the server does nothing to the VM until an operator answers in vCenter (Actions, Guest OS, Answer Question): " + question
}
