package tasks

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// A task that is watched costs a change of the list, vCenter's answer to that, and the answer when it ends, which several tasks share
// only if they begin or end together. With few slots, short tasks don't: three calls each. So a short task of a kind whose time is
// known is not watched but read when it should have ended, in one call with others that should end a moment later.
const (
	// shortMost is the longest time of a kind whose tasks are read, if it always takes that.
	shortMost = 4 * time.Second
	// readMost is how many tasks are awaited at most where a new one is read: more are large answers, and the watch's answers are then
	// shared by many.
	readMost = 24
	// readEvery is the shortest time between two reads, but for tasks that take no longer than that themselves: readSoon. If all tasks
	// that are read are expected to be over at a time, whose slots others use from then on, it is readSeldom.
	readEvery, readSoon, readSeldom = 30 * time.Millisecond, 15 * time.Millisecond, 90 * time.Millisecond
	// lateShare is the share of a task's time by which its read may be late, so that one read finds the ends of several; unhurriedShare is
	// that of an unhurried one, and againShare is after which share a task is read again that had not ended.
	lateShare, unhurriedShare, againShare = 12, 2, 6
	// overMost bounds the time of a kind whose tasks are said to be over. Where tasks take longer, it matters little that their ends are
	// noticed late, and steps that end and begin together share more reads.
	overMost = 250 * time.Millisecond
	// watchFor is how long all new tasks are watched after a read failed: the watch finds out what is wrong.
	watchFor = 10 * time.Second
)

// Kind is a kind of tasks that take about as long as each other; the zero Kind is unknown. The end of an Unhurried one may be noticed later,
// which saves calls.
type Kind struct {
	Name      string
	Unhurried bool
}

// late is how much later than it probably ended a task of that kind may be read.
func (k Kind) late(d duration) time.Duration {
	if k.Unhurried {
		return d.mean / unhurriedShare
	}
	return d.mean / lateShare
}

// shortTasks knows how long tasks take, by kind, and when all of them are watched. Tasks.mu guards it.
type shortTasks struct {
	kinds map[Kind]duration
	// added has a token when there is a new task to read.
	added chan struct{}
	// watched is until when all new tasks are watched.
	watched time.Time
}

// duration is how long tasks of a kind take, by vCenter's clock, and how far from that they are: moving averages with the weights that
// TCP uses for its round trips (RFC 6298, section 2).
type duration struct{ mean, deviation time.Duration }

// read is after how long a task is read first: when it has probably ended or, if that varies too much, when it may have.
func (d duration) read() time.Duration {
	if d.deviation > d.again() {
		return d.mean - d.deviation
	}
	return d.mean + d.deviation
}

// again is after how long a task is read again that had not ended.
func (d duration) again() time.Duration { return d.mean / againShare }

// most is how long a task takes at most, unless something is wrong.
func (d duration) most() time.Duration { return 2*d.mean + 4*d.deviation }

// learn notes how long a task took that succeeded: queued, and then running.
func (s *shortTasks) learn(kind Kind, info *types.TaskInfo) {
	if info.QueueTime.IsZero() || info.CompleteTime == nil {
		return // vCenter doesn't say
	}
	queued, ran := Times(info)
	took := queued + ran
	d, known := s.kinds[kind]
	if !known {
		s.kinds[kind] = duration{took, took / 2}
		return
	}
	off := took - d.mean
	s.kinds[kind] = duration{d.mean + off/8, d.deviation + (off.Abs()-d.deviation)/4}
}

// reads decides whether a new task is read. The caller holds t.mu.
func (t *Tasks) reads(kind Kind) bool {
	d, known := t.short.kinds[kind]
	return known && kind != Kind{} && d.most() <= 2*shortMost && len(t.awaited) < readMost && time.Now().After(t.short.watched)
}

// regular reports whether nearly all tasks of a kind have ended after mean and deviation, and that is soon.
func (d duration) regular() bool { return d.mean < overMost && d.deviation <= max(d.again(), readSoon) }

// expect tells when a new task that is read should have ended. The caller holds t.mu.
func (t *Tasks) expect(a *awaited) {
	if d := t.short.kinds[a.kind]; a.read && a.signs.Over != nil && d.regular() {
		a.over = time.AfterFunc(d.mean+d.deviation, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.awaited[a.info.Task] == a {
				a.since = time.Now()
				a.signs.Over(true)
			}
		})
	}
}

// goesOn takes back that a task should have ended, if it had not when a read began that has shown so. The caller holds t.mu.
func (a *awaited) goesOn(began time.Time) {
	if !a.since.IsZero() && a.since.Before(began) {
		a.since = time.Time{}
		a.signs.Over(false)
	}
}

// readShort reads the tasks that are not watched, until ctx ends.
func (t *Tasks) readShort(ctx context.Context) {
	var last time.Time
	for {
		refs, due := t.nextRead(last)
		var now <-chan time.Time
		if len(refs) > 0 {
			now = time.After(time.Until(due))
		}
		select {
		case <-now:
		case <-t.short.added:
			continue
		case <-ctx.Done():
			return
		}
		last = time.Now()
		if err := t.readNow(session.WithOperationID(ctx), refs); err != nil {
			t.log.Debug().Err(err).Msg("short tasks are watched for a while")
			t.watchInstead(refs, last.Add(watchFor))
			continue
		}
		t.watchInstead(t.overdue(refs, last), time.Time{})
	}
}

// nextRead returns the tasks to read, and when: once the first has probably ended, and those that probably end soon after it.
func (t *Tasks) nextRead(last time.Time) (refs []types.ManagedObjectReference, due time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ends []time.Time
	var latest time.Time
	gap := readSeldom
	for ref, a := range t.awaited {
		if !a.read {
			continue
		}
		d := t.short.kinds[a.kind]
		end := a.began.Add(d.read())
		if !end.After(last) { // it was read too early
			end = last.Add(d.again())
		}
		if late := end.Add(a.kind.late(d)); len(ends) == 0 || late.Before(latest) {
			latest = late
		}
		refs, ends = append(refs, ref), append(ends, end)
		if a.over == nil {
			gap = min(gap, readEvery, max(d.mean, readSoon))
		}
	}
	if len(refs) == 0 {
		return nil, due
	}
	for _, end := range ends {
		if !end.After(latest) && end.After(due) {
			due = end
		}
	}
	if next := last.Add(gap); due.Before(next) {
		due = next
	}
	return refs, due
}

// readNow reads tasks and processes what it finds.
func (t *Tasks) readNow(ctx context.Context, refs []types.ManagedObjectReference) error {
	s, err := t.sessions.Session(ctx)
	if err != nil {
		return err
	}
	return t.reread(ctx, s, refs)
}

// overdue returns those of refs that take much longer than others of their kind. The read that began then has shown that none has ended.
func (t *Tasks) overdue(refs []types.ManagedObjectReference, began time.Time) (late []types.ManagedObjectReference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ref := range refs {
		a := t.awaited[ref]
		if a == nil {
			continue
		}
		if a.goesOn(began); time.Since(a.began) > t.short.kinds[a.kind].most()+10*batchEvery {
			late = append(late, ref)
		}
	}
	return late
}

// watchInstead has tasks watched from now on, and all new ones until then.
func (t *Tasks) watchInstead(refs []types.ManagedObjectReference, until time.Time) {
	t.mu.Lock()
	if until.After(t.short.watched) {
		t.short.watched = until
	}
	for _, ref := range refs {
		if a := t.awaited[ref]; a != nil {
			a.read = false
		}
	}
	t.mu.Unlock()
	if len(refs) > 0 {
		signal(t.added)
	}
}

// signal leaves a token in a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
