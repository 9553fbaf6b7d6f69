// This file puts into words what blocks members.

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// blockingFault is a fault and the member it blocks (empty: the group).
type blockingFault struct {
	Who string
	plan.Fault
}

// named is a fault and the member it blocks (empty: the group).
type named = blockingFault

// withHelp adds a link to the documentation to the faults that an operator has to act on.
func withHelp(faults []blockingFault) []blockingFault {
	faults = slices.Clone(faults)
	for i := range faults {
		faults[i].Fault = faults[i].WithHelp()
	}
	return faults
}

// faultTexts lists the blocking faults, each once, with the members that it blocks. Faults that need an operator come first.
func faultTexts(faults []blockingFault, display func(who string) string) (texts []string) {
	var order []string
	whom := map[string][]string{}
	for _, f := range faultsInOrder(faults) {
		text := strings.TrimSuffix(f.Message, ".")
		if _, known := whom[text]; !known {
			order, whom[text] = append(order, text), nil
		}
		switch f.Who {
		case plan.FolderKey, plan.ConfirmKey:
		case plan.RulesKey:
			whom[text] = append(whom[text], "the group's DRS rules")
		default:
			whom[text] = append(whom[text], display(f.Who))
		}
	}
	for i, text := range order {
		if i == 3 && len(order) > 4 {
			return append(texts, fmt.Sprintf("and %d more reasons", len(order)-i))
		}
		switch names := whom[text]; len(names) {
		case 0:
		case 1:
			text = names[0] + ": " + afterColon(text)
		default:
			text = fmt.Sprintf("%d members (%s): %s", len(names), plan.AtMost(names, 3), afterColon(text))
		}
		texts = append(texts, text)
	}
	return texts
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
func faultsInOrder(faults []blockingFault) []blockingFault {
	faults = slices.Clone(faults)
	slices.SortStableFunc(faults, func(a, b blockingFault) int {
		return cmp.Or(comparePersons(a, b), cmp.Compare(len(a.Who), len(b.Who)), strings.Compare(a.Who, b.Who))
	})
	return faults
}

// comparePersons puts those first that need an operator.
func comparePersons(a, b blockingFault) int {
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
	return "the customization of its guest failed, so it may have another name and other addresses: " +
		cmp.Or(c.Error, "vCenter does not say why") + ". Correct the customization specification and replace the member (spec.replace), or correct the guest and power it off and on"
}

// untakenFault says what to look at where a guest reports other addresses than those that it was given.
func untakenFault(reported, untaken []string) string {
	return fmt.Sprintf("its guest reports %s, and not %s, which it was given (spec.networks): see whether the template applies guestinfo (cloud-init with its datasource VMware, and no network configuration of its own) or, with customizationSpec, what the guest customization did",
		plan.AtMost(reported, 3), plan.AtMost(untaken, 3))
}

// questionFault says that a VM waits for the answer to a question.
func questionFault(question string) string {
	return "the VM waits for an answer in vCenter (Actions, Guest OS, Answer Question), and nothing is done to it until then: " + question
}
