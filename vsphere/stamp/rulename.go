package stamp

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// RuleName returns "vmgroup <namespace>/<name> <uid>", with the middle cut if it is too long.
func RuleName(ref plan.Ref) string {
	group := ref.String()
	return rulePrefix + group[:min(len(group), max(0, ruleNameMost-len(rulePrefix)-1-len(ref.UID)))] + " " + string(ref.UID)
}

const (
	rulePrefix = "vmgroup "
	// ruleNameMost is the maximum length of a rule's name, as of any name in vSphere, in characters.
	ruleNameMost = 80
)

// RuleOwner returns the UID of the group that a rule of that name belongs to; empty if the rule is not the server's.
func RuleOwner(name string) types.UID {
	rest, ours := strings.CutPrefix(name, rulePrefix)
	if at := strings.LastIndexByte(rest, ' '); ours && at >= 0 {
		return types.UID(rest[at+1:])
	}
	return ""
}
