package inventory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/retry"
)

// How long the reader gathers requests before it makes a call: when a caller waits for the result, and when only the stream reported changes.
// So a burst of changes costs few calls, and the end of an action is seen at once.
const (
	gatherAwaited  = 10 * time.Millisecond
	gatherStreamed = 100 * time.Millisecond
)

// readAgain is the time after which an object that was read at the end of a step is read again. vCenter's stream compares an object's state
// with the one that it reported last: if a step changes a VM and an operator changes it back before vCenter compares, the stream reports
// nothing, and the inventory would keep what the step's read showed. After this time, vCenter has compared.
const readAgain = time.Second

// learn publishes a fact. It drops a fact of another vCenter, whose moRefs are not valid in this one.
func (r *Reader) learn(x fact) {
	defer close(x.published)
	if r.inventory.VCenter() != x.VCenter {
		return
	}
	x.Began = time.Now()
	r.publishing.Lock()
	defer r.publishing.Unlock()
	r.mu.Lock()
	maps.DeleteFunc(r.next.dirty, func(ref types.ManagedObjectReference, _ bool) bool { return slices.Contains(x.Gone, ref.Value) })
	if r.resync.running {
		for _, moRef := range slices.Concat(x.Gone, x.Off) {
			r.resync.newer[moRef] = true
		}
	}
	r.mu.Unlock()
	r.inventory.Publish(x.Reading)
}

// Run reads what is wanted until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	defer r.resyncs.Wait()
	defer close(r.done)
	failures := 0
	var failing time.Time // since when vCenter refuses reads
	for {
		select {
		case <-r.wake:
		case x := <-r.facts:
			r.learn(x)
			continue
		case <-ctx.Done():
			return
		}
		r.gather(ctx)
		r.mu.Lock()
		j := r.next
		r.next, r.running = job{}, j
		r.beginResync(ctx) // no read that began earlier is in flight now
		r.mu.Unlock()
		err := r.carryOut(ctx, j)
		r.mu.Lock()
		r.running = job{}
		r.mu.Unlock()
		if err == nil {
			r.published(j)
			failures, failing = 0, time.Time{}
			continue
		}
		// The read is not lost: it stays in next and is tried again. The client logs why it fails, and the stream's health reports it.
		r.log.Debug().Err(err).Msg("inventory read failed")
		r.add(j, nil)
		failures, failing = failures+1, r.failed(err, failing)
		if r.pause(ctx, retry.Lasting(time.Since(failing), failedReads.After(failures)), nil); ctx.Err() != nil {
			return
		}
	}
}

// published releases the waiters for a read.
func (r *Reader) published(j job) {
	for _, published := range j.waiting {
		close(published)
	}
	if len(j.again) > 0 {
		time.AfterFunc(readAgain, func() { // except for objects that are gone, whose moRefs don't return
			r.Enqueue(slices.DeleteFunc(slices.Clone(j.again), func(ref types.ManagedObjectReference) bool { return r.inventory.IsGone(ref.Value) })...)
		})
	}
}

// gather waits a moment for more requests.
func (r *Reader) gather(ctx context.Context) {
	r.pause(ctx, gatherStreamed, r.urgent)
	select {
	case <-r.urgent:
	default:
	}
	r.mu.Lock()
	awaited := len(r.next.waiting) > 0 || r.resync.next.urgent
	r.mu.Unlock()
	if awaited {
		r.pause(ctx, gatherAwaited, nil)
	}
}

// pause waits for d, or until stop. While it waits, it publishes facts.
func (r *Reader) pause(ctx context.Context, d time.Duration, stop <-chan struct{}) {
	over := time.After(d)
	for {
		select {
		case x := <-r.facts:
			r.learn(x)
		case <-over:
			return
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
}
