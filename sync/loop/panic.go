package loop

import (
	"fmt"
	"runtime"
)

// panicked says what was recovered. The value of a panic may be anything, a part of a Secret too: only the runtime's own faults,
// which hold no data, are told; of the others their type. The stack, beside it in the log, shows no strings.
func panicked(p any) string {
	if fault, is := p.(runtime.Error); is {
		return fault.Error()
	}
	return fmt.Sprintf("a %T", p)
}
