package plan

import "strings"

// Fault is a failure in words that a user can act on.
type Fault struct {
	// Reason is one CamelCase word, such as TemplateNotFound.
	Reason string
	// Message is a sentence that says what to do.
	Message string
	// NeedsOperator reports whether an operator has to act, because waiting does not help.
	NeedsOperator bool
	// Transient reports whether the fault passes by itself within seconds or minutes, and a retry costs little.
	Transient bool
	// Untried reports whether the step ended before the call that would have changed anything.
	Untried bool
	// Missing reports whether the step ended at a lookup, because vCenter has no object with a name in the spec or in the server's settings.
	Missing bool
	// Scope says which objects and sizes the fault depends on. Object is the one that vCenter, or the spec, names, or empty. See ScopeKey.
	Scope  FaultScope
	Object string
}

// FaultOf is a fault and what it blocks: a member or another VM, by the key of its steps, or RulesKey; empty: the group.
type FaultOf struct {
	Who string
	Fault
}

// Help returns the place in the documents that says what to do about a reason or a condition.
func Help(word string) string { return "docs/troubleshooting.md#" + strings.ToLower(word) }

// WithoutHelp removes from a message the places in the documents that WithHelp adds, for a page that has links instead.
func WithoutHelp(message string) string {
	for {
		before, after, has := strings.Cut(message, " ("+Help(""))
		_, rest, ends := strings.Cut(after, ")")
		if !has || !ends {
			return message
		}
		message = before + rest
	}
}

// WithHelp adds the place in the documents to the message of a fault that needs an operator.
func (f Fault) WithHelp() Fault {
	if f.NeedsOperator {
		f.Message = strings.TrimSuffix(f.Message, ".") + " (" + Help(f.Reason) + ")"
	}
	return f
}
