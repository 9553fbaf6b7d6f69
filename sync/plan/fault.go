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
	// Transient reports whether it passes by itself within seconds or minutes, and trying again costs little.
	Transient bool
	// Untried reports whether the step ended before the call that would have changed anything.
	Untried bool
	// Missing reports whether the step ended at a lookup, because vCenter has nothing of a name in the spec or in the server's settings.
	Missing bool
	// Depends says which objects and sizes it depends on, and Object is one that vCenter names; it can be empty. See Cause.
	Depends Depends
	Object  string
}

// Help is where the documents say what to do about a reason or a condition.
func Help(word string) string { return "docs/troubleshooting.md#" + strings.ToLower(word) }

// WithoutHelp is a message without the places in the documents that WithHelp adds, for a reader who is given links.
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

// WithHelp is the fault with a message that names its Help, if somebody has to act.
func (f Fault) WithHelp() Fault {
	if f.NeedsOperator {
		f.Message = strings.TrimSuffix(f.Message, ".") + " (" + Help(f.Reason) + ")"
	}
	return f
}
