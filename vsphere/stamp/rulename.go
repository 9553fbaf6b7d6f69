package stamp

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// RuleName returns "vmgroup <namespace>.<name> <uid>", with the middle cut if it is too long. It has no '/', which vCenter may escape.
func RuleName(ref plan.Ref) string { return ruleName(ref, string(ref.UID)) }

// VMGroupName returns the name of the DRS VM group for the host group at index n, counted from 0, which its rule has, too:
// "vmgroup <namespace>.<name> <n> <uid>".
func VMGroupName(ref plan.Ref, n int) string {
	return ruleName(ref, strconv.Itoa(n)+" "+string(ref.UID))
}

func ruleName(ref plan.Ref, end string) string {
	group := ref.Namespace + "." + ref.Name
	return rulePrefix + group[:min(len(group), max(0, ruleNameMost-len(rulePrefix)-1-len(end)))] + " " + end
}

const (
	rulePrefix = "vmgroup "
	// ruleNameMost is the maximum length of a rule's name in characters, as of any name in vSphere.
	ruleNameMost = 80
)

// RuleOwner returns the UID of the group to which a rule or DRS VM group of that name belongs; empty if no server made it.
func RuleOwner(name string) types.UID {
	rest, ours := strings.CutPrefix(name, rulePrefix)
	if at := strings.LastIndexByte(rest, ' '); ours && at >= 0 {
		return types.UID(rest[at+1:])
	}
	return ""
}
