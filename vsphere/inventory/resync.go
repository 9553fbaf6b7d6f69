package inventory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// A resync is a read of everything. First it reads a few properties of all VMs and places, page by page, and publishes each page. Then it reads
// the objects of which all properties are needed, a hundred at a time, between the reader's other reads. Finally it forgets the objects that it
// did not see. So no other read waits for it, it needs little memory, and it can take as long as it makes progress.
//
// vCenter may have collected a page some time before it returned it, and other reads are published while a resync runs. An object that another
// read has published is newer than the resync's pages, which skip it. An object that another read is reading, the resync reads again at its end.

// Scan waits until a read of everything, begun after this call, has been published. Concurrent callers
// share one.
func (r *Reader) Scan(ctx context.Context) error { return r.awaitResync(ctx, resync{urgent: true}) }

// ScanWithClusters waits until a read of everything and of all clusters, begun after this call, has been published.
func (r *Reader) ScanWithClusters(ctx context.Context) error {
	return r.awaitResync(ctx, resync{urgent: true, clusters: true})
}

// ScanAtLeisure is Scan for a read that is not urgent: it pauses between its calls, to leave vCenter time.
func (r *Reader) ScanAtLeisure(ctx context.Context) error { return r.awaitResync(ctx, resync{}) }

// ScanNow reads everything once, and publishes it. It is for callers that do not call Run.
func (r *Reader) ScanNow(ctx context.Context) error {
	return r.goThrough(ctx, resync{urgent: true}, func(ctx context.Context, j job) error { return r.carryOut(ctx, j) })
}

func (r *Reader) awaitResync(ctx context.Context, p resync) error {
	published := make(chan struct{})
	p.wanted, p.waiting = true, []chan struct{}{published}
	r.mu.Lock()
	r.resync.next.add(p)
	r.mu.Unlock()
	notify(r.wake)
	notify(r.urgent)
	return r.until(ctx, published)
}

// Interrupt ends the running resync, whose session may have ended. It begins again.
func (r *Reader) Interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resync.cancel != nil {
		r.resync.cancel()
	}
}

// beginResync begins a resync if one is wanted and none is running. The caller holds mu.
func (r *Reader) beginResync(ctx context.Context) {
	p := r.resync.next
	if !p.wanted || r.resync.running || time.Now().Before(r.resync.again) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r.resync.next, r.resync.running, r.resync.cancel, r.resync.newer = resync{}, true, cancel, map[string]bool{}
	r.resyncs.Go(func() {
		defer cancel()
		r.endResync(p, r.goThrough(ctx, p, func(ctx context.Context, j job) error { return r.await(ctx, j, nil) }))
	})
}

// endResync releases the waiters of a resync, or lets it begin again after a pause.
func (r *Reader) endResync(p resync, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resync.running, r.resync.cancel, r.resync.newer = false, nil, nil
	if err == nil {
		r.resync.failures, r.resync.failing = 0, time.Time{}
		for _, published := range p.waiting {
			close(published)
		}
	} else {
		r.log.Debug().Err(err).Msg("full inventory read failed")
		r.resync.next.add(p)
		r.resync.failures, r.resync.failing = r.resync.failures+1, r.failed(err, r.resync.failing)
		r.resync.again = time.Now().Add(retry.Lasting(time.Since(r.resync.failing), failedReads.After(r.resync.failures)))
	}
	if r.resync.next.wanted {
		time.AfterFunc(time.Until(r.resync.again), func() { notify(r.wake) })
	}
}

// wholeAtOnce is how many objects a resync reads whole in one call: other reads wait for it.
const wholeAtOnce = 100

// goThrough carries out a resync; read makes its reads of single objects and clusters.
func (r *Reader) goThrough(ctx context.Context, p resync, read func(context.Context, job) error) error {
	var t *firstPart
	err := r.call(ctx, func(ctx context.Context, s *session.Session) error {
		t = &firstPart{reader: r, resync: p, session: s, began: time.Now(), seen: map[string]bool{}, whole: map[types.ManagedObjectReference]bool{}}
		for _, moRef := range r.inventory.wholeRefs() {
			t.whole[VMRef(moRef)] = true
		}
		t.paused = time.Now()
		unread, err := readTree(ctx, s, new(answer).owning().Paths(), func(page []types.ObjectContent) error { return t.take(ctx, page) })
		for _, ref := range unread {
			t.whole[ref] = true
		}
		t.partly = len(unread) > 0
		return err
	})
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(r.notOvertaken(t.whole), wholeAtOnce) {
		j := job{dirty: make(map[types.ManagedObjectReference]bool, len(chunk))}
		for _, ref := range chunk {
			j.dirty[ref], t.seen[ref.Value] = true, true
		}
		if err := read(ctx, j); err != nil {
			return err
		}
		t.rest(ctx)
	}
	if p.clusters || r.clustersDue(t.began, t.session.UUID) {
		if err := read(ctx, job{clusters: true}); err != nil {
			return err
		}
	}
	r.publishing.Lock()
	defer r.publishing.Unlock()
	r.mu.Lock()
	for moRef := range r.resync.newer {
		t.seen[moRef] = true
	}
	r.mu.Unlock()
	return r.publish(t.session.Epoch, Reading{VCenter: t.session.UUID, Began: t.began, Complete: !t.partly, Seen: t.seen})
}

// notOvertaken lists the objects that no other read has published since the resync began.
func (r *Reader) notOvertaken(refs map[types.ManagedObjectReference]bool) (left []types.ManagedObjectReference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(sortedRefs(refs), func(ref types.ManagedObjectReference) bool { return r.resync.newer[ref.Value] })
}

// rulesAgain is how often the clusters are read while groups have DRS rules, or want some.
const rulesAgain = time.Minute

// clustersDue reports whether it is time to read the clusters of that vCenter again, or for the first time.
func (r *Reader) clustersDue(now time.Time, vcenter string) bool {
	r.mu.Lock()
	due := now.Sub(r.clustersRead) >= rulesAgain
	r.mu.Unlock()
	return due || !r.inventory.clustersKnown(vcenter)
}

// firstPart is the first part of a resync: a few properties of all VMs and places.
type firstPart struct {
	reader  *Reader
	resync  resync
	session *session.Session
	began   time.Time
	paused  time.Time // the end of its last pause
	partly  bool      // not everything could be read

	seen  map[string]bool
	whole map[types.ManagedObjectReference]bool
}

// take publishes a page. It leaves out, for the second part, the objects of which all properties are needed: VMs that have a stamp or whose
// stamp can't be read, VMs that a group wants to adopt, and members that no page shows, because those need not be gone.
func (t *firstPart) take(ctx context.Context, page []types.ObjectContent) error {
	result := Reading{VCenter: t.session.UUID, Began: t.began}
	result.decode(page, map[string]string{})
	if err := readTemplates(ctx, t.session, &result); err != nil {
		return err
	}
	if err := t.publish(&result); err != nil {
		return err
	}
	t.rest(ctx)
	return nil
}

func (t *firstPart) publish(result *Reading) error {
	r := t.reader
	r.publishing.Lock()
	defer r.publishing.Unlock()
	r.mu.Lock()
	later := func(ref types.ManagedObjectReference, whole bool) bool {
		t.seen[ref.Value] = true
		if r.resync.newer[ref.Value] {
			return true
		}
		if whole = whole || t.whole[ref] || r.running.dirty[ref] || r.next.dirty[ref]; whole {
			t.whole[ref] = true
		}
		return whole
	}
	result.Machines = slices.DeleteFunc(result.Machines, func(m Machine) bool {
		return later(VMRef(m.MoRef), m.StampText != "" || !m.Readable)
	})
	result.Places = slices.DeleteFunc(result.Places, func(p Place) bool {
		return later(types.ManagedObjectReference{Type: p.Kind, Value: p.MoRef}, false)
	})
	r.mu.Unlock()
	return r.publish(t.session.Epoch, *result)
}

// A resync that is not urgent makes a pause after each call, leisure times as long as the call took, up to leisureMost.
const (
	leisure     = 4
	leisureMost = time.Second
)

func (t *firstPart) rest(ctx context.Context) {
	r := t.reader
	r.mu.Lock()
	urgent := t.resync.urgent || r.resync.next.urgent
	r.mu.Unlock()
	if !urgent {
		session.Sleep(ctx, min(leisure*time.Since(t.paused), leisureMost))
	}
	t.paused = time.Now()
}

// wholeRefs returns the moRefs of the VMs that are always read whole: all members of all groups, and the VMs that may
// become members.
func (n *Inventory) wholeRefs() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.AppendSeq(n.adoptions.refs(), maps.Keys(n.objects.members))
}
