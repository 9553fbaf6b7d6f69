package loop

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/retry"
)

// One pace for one cause. If vCenter refuses the steps of many groups for one reason (a datastore is full, a privilege is missing), one group
// tries, and the others wait for its outcome: otherwise each group adds a try. The fault's row (package vcfault) says which failures share a
// cause. When a try is due, the first group that is planned takes it, so a deleted group is never chosen. Each group gets its turn, because one
// group may fail for another reason. After a success the others follow, starting slowly.

// causeKey is equal for failures that have one cause:
//
//	the fault                            failures with one cause
//	-----------------------------------  -------------------------------------------------------
//	says on what the refusal depends     of any group, with the same op, reason and dependencies
//	is of DRS rules that don't stay      of any group in the same pool
//	needs an operator                    of one group, with the same op, reason and message
//	any other                            of one VM, with the same op and reason
type causeKey struct {
	op          plan.Op
	reason      string
	on          string // what the refusal depends on (plan.Fault.ScopeKey)
	group       types.UID
	vm, message string
}

func causeKeyOf(g *v1alpha1.VmGroup, a *plan.Action, f *plan.Fault) causeKey {
	key := causeKey{op: a.Op, reason: f.Reason}
	switch on := f.ScopeKey(g, a); {
	case on != "":
		key.on = on
	case f.NeedsOperator:
		key.group, key.message = g.UID, f.Message
	default:
		key.group, key.vm = g.UID, a.Key
	}
	return key
}

// causes are those of all groups' failures.
type causes map[causeKey]*cause

// cause is why steps fail, and when the next one is tried.
type cause struct {
	key     causeKey
	fault   plan.Fault        // the last one
	since   time.Time         // of the first failure since a try succeeded
	until   time.Time         // when the next try is due
	tries   int               // that failed since
	atOnce  slowStart         // tries at once
	running []*run            // tries that run
	waiting map[types.UID]int // failures, by group
	// In each round, each waiting failure is tried once; had is how many of them have been tried in this round.
	round, had int
	stays      bool // a change that was undone again and again (undone.go) has stayed
}

// turnPatience is how long a try is reserved for groups that have not had their turn: these may be paused, or called at other replicas.
const turnPatience = 2 * time.Second

// join adds a failure to its cause.
func (x causes) join(key causeKey, now time.Time) *cause {
	c := x[key]
	if c == nil {
		c = &cause{key: key, since: now, atOnce: 1, round: 1, waiting: map[types.UID]int{}}
		x[key] = c
	}
	return c
}

// leave removes a group's failure from its cause.
func (x causes) leave(group types.UID, f *failure) {
	c := f.cause
	if c == nil {
		return
	}
	if f.round == c.round {
		c.had--
	}
	if c.waiting[group]--; c.waiting[group] <= 0 {
		delete(c.waiting, group)
	}
	if len(c.waiting) == 0 && x[c.key] == c {
		delete(x, c.key)
	}
}

// failing reports whether an action of a group would probably fail: the same action fails for other groups, with a fault that depends on what both
// have in common.
func (x causes) failing(g *v1alpha1.VmGroup, a *plan.Action) bool {
	type kind struct {
		reason, object string
		depends        plan.FaultScope
	}
	looked := map[kind]bool{} // thousands of causes may be of one kind, such as a privilege that is missing on each namespace's folder
	for key, c := range x {
		k := kind{key.reason, c.fault.Object, c.fault.Scope}
		if key.op != a.Op || key.on == "" || looked[k] {
			continue
		}
		looked[k] = true
		if same := x[causeKey{op: a.Op, reason: key.reason, on: c.fault.ScopeKey(g, a)}]; same != nil && same.tries > 0 {
			return true
		}
	}
	return false
}

// failed records a try that failed, and returns in what time the next one is due.
func (c *cause) failed(f *plan.Fault, now time.Time, jitter func(most time.Duration) time.Duration) (retry time.Duration) {
	if c.tries == 0 {
		c.since = now
	}
	c.tries, c.fault = c.tries+1, *f
	retry = pace(f, c.tries, now.Sub(c.since))
	retry += jitter(retry/5 + 1)
	c.rest(now.Add(retry))
	return retry
}

// rest sets when the next try is due. It begins a new round once all have had their turn.
func (c *cause) rest(until time.Time) {
	c.atOnce.begin()
	c.until = until
	if c.had >= c.count() {
		c.round, c.had = c.round+1, 0
	}
}

// succeeded makes the next tries due.
func (c *cause) succeeded(now time.Time) {
	c.atOnce.succeeded()
	c.tries, c.until = 0, now
	c.round, c.had = c.round+1, 0
}

func (c *cause) count() (n int) {
	for _, failures := range c.waiting {
		n += failures
	}
	return n
}

// permits reports whether a failure that waits for the cause can be tried now.
func (c *cause) permits(f *failure, now time.Time) bool {
	busy, passed := 0, 0
	for _, r := range c.running {
		if now.Before(r.passes) {
			busy++
		} else {
			passed++
		}
	}
	return c.atOnce.permits(busy, passed) && (passed > 0 || !now.Before(c.due(f)))
}

// due is when a failure can be tried, unless another one is then.
func (c *cause) due(f *failure) time.Time {
	if f.round == c.round && c.had < c.count() {
		return c.until.Add(turnPatience)
	}
	return c.until
}

// How long a cause waits for its next try, by the kind of its fault. In the first minutes, an operator who ends the cause sees that within ten seconds.
// What lasts is tried once in a minute: vCenter is spared then.
var (
	mayPass      = retry.Backoff{First: time.Second, Most: 100 * time.Second}
	passesSoon   = retry.Backoff{First: time.Second, Most: 4 * time.Second}
	operatorPace = retry.Backoff{First: 4 * time.Second, Most: 4 * time.Second} // an operator has to act; a retry is cheap
)

// pace is how long to wait after so many failed tries, the first of which was so long ago.
func pace(f *plan.Fault, tries int, lasts time.Duration) time.Duration {
	backoff := mayPass
	switch {
	case f.NeedsOperator:
		backoff = operatorPace
	case f.Transient:
		backoff = passesSoon
	}
	return retry.Lasting(lasts, backoff.After(tries))
}
