package page

import (
	"cmp"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// calls are Metacontroller's calls, as the page shows them.
type calls struct {
	plan.Calls
	// Groups reports whether the server knows groups that Metacontroller should call for.
	Groups bool
	// Pod is where this replica of the server runs.
	Pod string
}

func (p *Page) callsOf(seen *seen) calls {
	return calls{Calls: seen.calls, Groups: len(seen.groups) > 0, Pod: cmp.Or(p.cfg.Pod, "this one")}
}

// Missing reports whether Metacontroller should call, and doesn't.
func (c calls) Missing() bool { return c.Silent && c.Groups }

// since says since when no call has come.
func (c calls) since() string {
	if c.Last.IsZero() {
		return "since this server started at " + utc(c.Began)
	}
	return "since " + utc(c.Last)
}
