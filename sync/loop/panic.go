package loop

import (
	"fmt"
	"runtime"
)

// panicked describes a recovered value for the log. It may be anything, even part of a Secret: only the runtime's own errors,
// which have no data, are logged in full; for others only the type. The stack, which is logged beside it, shows no strings.
func panicked(p any) string {
	if fault, is := p.(runtime.Error); is {
		return fault.Error()
	}
	return fmt.Sprintf("a %T", p)
}
