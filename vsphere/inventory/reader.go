package inventory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Caller makes calls of vCenter on a session. Errors are *vcfault.Error.
type Caller interface {
	Call(ctx context.Context, f func(context.Context, *session.Session) error) error
}

// Reader makes all reads of single objects, one after another, and publishes each before the next, so that later reads are
// published later. Requests that come during a read go into the next one. A read of everything takes long, so it runs beside
// them (resync.go).
type Reader struct {
	calls     Caller
	inventory *Inventory
	log       zerolog.Logger
	wake      chan struct{} // something is wanted; its capacity is 1
	urgent    chan struct{} // a caller waits; its capacity is 1
	facts     chan fact
	done      chan struct{} // closed when run has ended
	resyncs   sync.WaitGroup

	// publishing is held while a reading is published. Code that needs both takes publishing before mu. epoch is that of the newest session
	// from which a reading was published.
	publishing sync.Mutex
	epoch      int64
	// withoutNet are the VMs of the last Reading.WithoutNet that the log has named.
	withoutNet map[string]bool

	mu      sync.Mutex
	next    job
	running job
	resync  resyncs
	// clustersRead is when the clusters were last read.
	clustersRead time.Time
	// clustersFault is why the last read of the clusters failed; nil if it didn't.
	clustersFault error
}

// fact is a Reading that follows from the success of a task, without a call; published is closed when the inventory has it.
type fact struct {
	Reading
	published chan struct{}
}

// job is one read of some VMs and places, or of the clusters; and its waiters.
type job struct {
	// clusters asks for the clusters and the groups' rules in them.
	clusters bool
	dirty    map[types.ManagedObjectReference]bool
	waiting  []chan struct{}
	// again are the objects that a caller waits for: they are read once more after readAgain.
	again []types.ManagedObjectReference
}

// NewReader returns the only reader of an inventory.
func NewReader(c Caller, n *Inventory, log zerolog.Logger) *Reader {
	r := &Reader{calls: c, inventory: n, log: log, wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1), facts: make(chan fact), done: make(chan struct{}), withoutNet: map[string]bool{}}
	n.want = func(moRef string) { r.Enqueue(VMRef(moRef)) }
	return r
}

// Enqueue makes the reader read objects that may have changed.
func (r *Reader) Enqueue(refs ...types.ManagedObjectReference) { r.add(job{}, refs) }

// Busy reports whether a read of that object is wanted or in flight.
func (r *Reader) Busy(ref types.ManagedObjectReference) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next.dirty[ref] || r.running.dirty[ref]
}

// Read waits until a read of these objects, begun after this call, has been published.
func (r *Reader) Read(ctx context.Context, refs ...types.ManagedObjectReference) error {
	return r.await(ctx, job{again: refs}, refs)
}

// Report publishes what follows from the success of a task of this server, and waits until the inventory has it: x.Gone and x.Off, in the
// vCenter x.VCenter. So no call needs to read it. Readings that began earlier are published earlier, so none overwrites x.
func (r *Reader) Report(ctx context.Context, x Reading) error {
	f := fact{x, make(chan struct{})}
	select {
	case r.facts <- f:
		<-f.published
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		return context.Canceled
	}
}

// ReadClusters waits until a read of all clusters, begun after this call, has been published. It fails if they can't be read: what is known of them
// may no longer be so.
func (r *Reader) ReadClusters(ctx context.Context) error {
	if err := r.await(ctx, job{clusters: true}, nil); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clustersFault
}

// TouchClusters makes the reader read the clusters, whose rules may have changed.
func (r *Reader) TouchClusters() { r.add(job{clusters: true}, nil) }

func (r *Reader) await(ctx context.Context, j job, refs []types.ManagedObjectReference) error {
	published := make(chan struct{})
	j.waiting = []chan struct{}{published}
	r.add(j, refs)
	notify(r.urgent)
	return r.until(ctx, published)
}

func (r *Reader) until(ctx context.Context, published <-chan struct{}) error {
	select {
	case <-published:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		return context.Canceled
	}
}

func (r *Reader) add(j job, refs []types.ManagedObjectReference) {
	r.mu.Lock()
	if r.next.dirty == nil {
		r.next.dirty = map[types.ManagedObjectReference]bool{}
	}
	for _, ref := range refs {
		r.next.dirty[ref] = true
	}
	maps.Copy(r.next.dirty, j.dirty)
	r.next.clusters = r.next.clusters || j.clusters
	r.next.waiting = append(r.next.waiting, j.waiting...)
	r.next.again = append(r.next.again, j.again...)
	r.mu.Unlock()
	notify(r.wake)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// refused is why a read failed for which there was a session.
type refused struct{ error }

// Unwrap returns the error itself.
func (r refused) Unwrap() error { return r.error }

// failed notes why a read failed, and returns since when vCenter refuses reads; that was since before, or zero. Without a session, a try makes
// no call.
func (r *Reader) failed(err error, since time.Time) time.Time {
	if !errors.As(err, &refused{}) {
		return time.Now()
	}
	if why := vcfault.Classify("", err); why.Reason != vcfault.ReasonCancelled { // the stream interrupts reads, and has told why
		r.inventory.explain(&why.Fault)
	}
	if since.IsZero() {
		return time.Now()
	}
	return since
}

// call makes the calls of a read.
func (r *Reader) call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	connected := false
	err := r.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		connected = true
		return f(ctx, s)
	})
	if err != nil && connected {
		return refused{err}
	}
	return err
}

// failedReads are the pauses after reads that failed.
var failedReads = retry.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// carryOut makes the reads of a job, and publishes the result.
func (r *Reader) carryOut(ctx context.Context, j job) error {
	if !j.clusters && len(j.dirty) == 0 {
		return nil
	}
	var result Reading
	var epoch int64
	began := time.Now()
	err := r.call(ctx, func(ctx context.Context, s *session.Session) error {
		result, epoch = Reading{VCenter: s.UUID, Began: time.Now(), guestNetworks: r.inventory.guestNetworks}, s.Epoch
		if err := readRefs(ctx, s, sortedRefs(j.dirty), &result); err != nil {
			return err
		}
		if err := readTemplates(ctx, s, &result); err != nil {
			return err
		}
		if j.clusters {
			return r.lookAtClusters(ctx, s, &result)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if err := r.publish(epoch, result); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resync.overtaken(j.dirty, &result)
	if result.Clusters != nil {
		r.clustersRead = began
	}
	return nil
}

// errSuperseded fails a read that another one on a newer session has overtaken, perhaps of another vCenter.
var errSuperseded = errors.New("a newer session has read vCenter")

// publish stores a reading. The caller holds publishing.
func (r *Reader) publish(epoch int64, result Reading) error {
	if epoch < r.epoch {
		return errSuperseded
	}
	r.epoch = epoch
	for _, moRef := range result.WithoutNet {
		if !r.withoutNet[moRef] {
			r.withoutNet[moRef] = true
			r.log.Warn().Str("moRef", moRef).Msg("using only the VM's primary address: its guest reports more than the server reads in one answer, 32 MiB or 1,048,576 values")
		}
	}
	r.inventory.Publish(result)
	return nil
}

// lookAtClusters reads the clusters. Few groups need them, so the rest of a reading is published even if they can't be read.
func (r *Reader) lookAtClusters(ctx context.Context, s *session.Session, result *Reading) error {
	objects, err := session.Retrieve(WithoutRulesOfOthers(ctx), s, clusterSpec(s.Vim.ServiceContent.RootFolder))
	if err != nil {
		switch e := vcfault.Classify("", err); e.Reason {
		case vcfault.ReasonVCenterUnreachable, vcfault.ReasonNotAuthenticated, vcfault.ReasonTimeout, vcfault.ReasonCancelled:
			return err
		}
		r.log.Debug().Err(err).Msg("clusters could not be read")
	} else {
		result.Clusters = decodeClusters(objects)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clustersFault = err
	return nil
}

func sortedRefs(refs map[types.ManagedObjectReference]bool) []types.ManagedObjectReference {
	return slices.SortedFunc(maps.Keys(refs), func(a, b types.ManagedObjectReference) int { return strings.Compare(a.Value, b.Value) })
}

// resyncs are the running resync and the next one. Reader.mu guards them.
type resyncs struct {
	next    resync
	running bool
	// cancel ends the running resync.
	cancel context.CancelFunc
	// newer are the objects that other reads have published since the running resync began.
	newer map[string]bool
	// After a failure, the next resync begins at again, after a pause that grows. failing is since when vCenter refuses them.
	failures int
	again    time.Time
	failing  time.Time
}

// resync is one read of everything that is wanted, and its waiters.
type resync struct {
	wanted, clusters bool
	// urgent reports whether a caller waits for the resync. If not, the resync pauses between its calls, to leave vCenter time.
	urgent  bool
	waiting []chan struct{}
}

func (p *resync) add(q resync) {
	p.wanted, p.clusters, p.urgent = p.wanted || q.wanted, p.clusters || q.clusters, p.urgent || q.urgent
	p.waiting = append(p.waiting, q.waiting...)
}

// overtaken notes the objects that another read has published.
func (p *resyncs) overtaken(refs map[types.ManagedObjectReference]bool, r *Reading) {
	if !p.running {
		return
	}
	for ref := range refs {
		p.newer[ref.Value] = true
	}
	for i := range r.Places { // a read of objects can return places that it did not ask for
		p.newer[r.Places[i].MoRef] = true
	}
}
