package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// maxWait is how long vCenter can keep a call of the stream open when nothing changes. It is below any
	// session's time-out.
	maxWait = 20 * time.Second
	// shortWait replaces maxWait while there are members that the stream did not report.
	shortWait = time.Second
	// overdueMost is how much later than maxWait a call can return while vCenter answers other calls: a busy vCenter delays the stream.
	overdueMost = time.Minute
	// When a call is later than maxWait by silence, the server makes another call, to find out whether vCenter still answers. vCenter must
	// answer that call within answerMost.
	silence, answerMost = 10 * time.Second, 20 * time.Second
	// firstAnswer bounds each page of the stream's first answer, which has all objects: vCenter may take longer for
	// it than WaitOptions.maxWaitSeconds.
	firstAnswer = 5 * time.Minute
	// streamPause is the pause after an answer with changes, so that changes accumulate in vCenter and one call returns many.
	streamPause = 250 * time.Millisecond
	// rescan is the time after the opening of a stream at which everything is read again, to repair what the stream may have missed. The
	// interval to the next read doubles each time, up to rescanMost times rescan. Every rescan, requests that were not repeated are
	// forgotten.
	rescan     = 5 * time.Minute
	rescanMost = 12
	// settingsRetry is the interval at which the settings are looked up again while an object that they name is missing or ambiguous, for the
	// first minutes (retry.Lasting).
	settingsRetry = 20 * time.Second
	// cleanupTimeout bounds each call that cleans up in vCenter.
	cleanupTimeout = 2 * time.Second
)

// Sessions provides the session on which the stream runs. The stream calls Lost if the session ended or is unreachable. Health returns why
// there is no session, or nil.
type Sessions interface {
	Session(ctx context.Context) (*session.Session, error)
	Lost(s *session.Session, err error)
	Health() *plan.Fault
}

// Stream asks vCenter for changes and tells the reader which objects changed. It takes no values from vCenter's reports, because they may be
// old: the reader reads the objects.
type Stream struct {
	sessions  Sessions
	selection Selection
	inventory *Inventory
	reader    *Reader
	log       zerolog.Logger
	whole     atomic.Bool // whether everything was read at least once

	maxWait, silence time.Duration

	// Timed is called with the duration of the stream's "first" answer and of each "full" read. It can be nil.
	Timed func(read string, took time.Duration)

	// left is the previous property collector. After a network failure, its session may still exist in vCenter.
	left struct {
		session   *session.Session
		collector types.ManagedObjectReference
	}
}

// WatchSpec lists the properties of which vCenter sends updates, for all places and VMs below root. The decoder drops their values
// (session.WithoutValues), because most are of VMs that are no members, whose guests report addresses, too. The properties are few, because
// vcsim compares all of them for each update. A short power-off shows as a change of bootTime.
func WatchSpec(root types.ManagedObjectReference) types.PropertyFilterSpec {
	paths := slices.DeleteFunc(new(answer).properties().Paths(), showsOtherwise)
	return types.PropertyFilterSpec{ObjectSet: everyVM(root), PropSet: append(placeSpecs(), types.PropertySpec{Type: session.VMType, PathSet: paths})}
}

// showsOtherwise reports whether a change of a property shows as one of another: of the hardware or the stamp as one of config.changeVersion, and a
// move into a vApp as one of parent.
func showsOtherwise(path string) bool {
	switch path {
	case "config.changeVersion", "config.template":
		return false
	case "parentVApp":
		return true
	}
	return strings.HasPrefix(path, "config.") || strings.HasPrefix(path, "summary.config.")
}

// NewStream returns a Stream that does nothing until Run.
func NewStream(sessions Sessions, selection Selection, n *Inventory, r *Reader, log zerolog.Logger) *Stream {
	return &Stream{sessions: sessions, selection: selection, inventory: n, reader: r, log: log, maxWait: maxWait, silence: silence}
}

// heldWell is how long a stream must last so that the next one is opened after the first pause of broken, the pauses after streams that broke. The client
// has separate pauses between logins.
const heldWell = 10 * time.Second

var broken = retry.Backoff{First: 200 * time.Millisecond, Most: 15 * time.Second}

// Run follows vCenter until ctx ends. After that the inventory is unknown.
func (st *Stream) Run(ctx context.Context) {
	failures := 0         // since a stream held well
	var failing time.Time // since when no stream lasted although there was a session
	for ctx.Err() == nil {
		began := time.Now()
		connected, err := st.live(ctx)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errSilent) {
			st.log.Warn().Err(err).Msg("reopening vCenter's stream of changes")
		} else {
			st.broke(err)
		}
		if time.Since(began) > heldWell {
			failures = 0
		}
		if failures++; !connected || failures == 1 {
			failing = time.Now()
		}
		if !session.Sleep(ctx, retry.Lasting(time.Since(failing), broken.After(failures))) {
			break
		}
	}
	st.inventory.setUnknown(nil)
}

// WasRead reports whether the inventory was read completely at least once.
func (st *Stream) WasRead() bool { return st.whole.Load() }

// live runs one stream: it begins with a read of everything, and ends when the stream breaks. connected reports whether there was a session.
func (st *Stream) live(ctx context.Context) (connected bool, err error) {
	s, err := st.sessions.Session(ctx)
	if err != nil {
		return false, err
	}
	if st.left.session == s {
		CloseCollector(ctx, s, st.left.collector)
	}
	seen := watched{entered: map[string]bool{}, checked: map[string]bool{}}
	pc, version, err := st.open(ctx, s, seen)
	st.left.session, st.left.collector = s, pc
	if err != nil {
		st.blame(s, err)
		return true, err
	}
	// Closing the collector makes vCenter end the wait. After a mere disconnect, vCenter would continue to wait.
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	changes := make(chan error, 1)
	go func() { defer close(changes); changes <- st.follow(waiting, s, pc, version, seen) }()
	err = st.attend(ctx, s, changes)
	if ctx.Err() == nil && !errors.Is(err, errSilent) {
		st.broke(err)
	}
	CloseCollector(ctx, s, pc)
	select {
	case <-changes:
	case <-time.After(cleanupTimeout):
	}
	return true, err
}

// broke declares the inventory unknown, and why. The client's reason takes precedence, because the client sees the failures of all calls.
func (st *Stream) broke(err error) {
	st.reader.Interrupt()
	why := st.sessions.Health()
	if why == nil {
		why = &vcfault.Classify("", err).Fault
	}
	if st.inventory.setUnknown(why) {
		st.log.Warn().Err(err).Str("reason", why.Reason).Msg("vCenter's inventory is unknown")
	}
}

// blame tells the client that its session is gone if the error says so.
func (st *Stream) blame(s *session.Session, err error) {
	switch e := vcfault.Classify("", err); e.Reason {
	case vcfault.ReasonVCenterUnreachable, vcfault.ReasonNotAuthenticated:
		st.sessions.Lost(s, e)
	}
}

// attend keeps the facts up to date that the stream doesn't report, until the stream breaks.
func (st *Stream) attend(ctx context.Context, s *session.Session, changes <-chan error) error {
	if err := st.Fit(ctx, s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began, scanned := time.Now(), st.scan(ctx, st.reader.Scan)
	every, left := 1, 1
	retries, rescans, rules := time.NewTimer(settingsRetry), time.NewTicker(rescan), time.NewTicker(rulesAgain)
	fitted := began // when the settings last fitted
	defer rules.Stop()
	defer retries.Stop()
	defer rescans.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-changes:
			return err
		case err := <-scanned:
			if scanned = nil; err != nil {
				return err
			}
			st.whole.Store(true)
			if st.inventory.setKnown(true, nil) {
				st.log.Info().Dur("durationSeconds", time.Since(began)).Msg("vCenter's inventory is known")
			}
		case <-rescans.C:
			if left--; left > 0 || scanned != nil {
				st.inventory.forgetUnasked()
				continue
			}
			scanned = st.scan(ctx, st.reader.ScanAtLeisure)
			every = min(2*every, rescanMost)
			left = every
		case <-rules.C:
			if st.inventory.usesRules() {
				st.reader.TouchClusters()
			}
		case <-retries.C:
			if st.inventory.fits() {
				fitted = time.Now()
			} else if err := st.Fit(ctx, s); err != nil {
				return err
			}
			retries.Reset(retry.Lasting(time.Since(fitted), settingsRetry))
		}
	}
}

// scan reads everything, in the background.
func (st *Stream) scan(ctx context.Context, read func(context.Context) error) <-chan error {
	scanned := make(chan error, 1)
	go func() {
		began := time.Now()
		err := read(ctx)
		if err == nil {
			st.timed("full", time.Since(began))
		}
		scanned <- err
	}()
	return scanned
}

func (st *Stream) timed(read string, took time.Duration) {
	if st.Timed != nil {
		st.Timed(read, took)
	}
}

// Fit looks up the objects that the settings name. If one is missing or ambiguous, Fit records the fault, and returns no error.
func (st *Stream) Fit(ctx context.Context, s *session.Session) error {
	site, err := resolveSettings(ctx, s, st.selection)
	if err == nil {
		st.inventory.SetSettings(site, nil)
		return nil
	}
	if err.Reason == vcfault.ReasonVCenterUnreachable || err.Reason == vcfault.ReasonNotAuthenticated || err.Reason == vcfault.ReasonTimeout ||
		err.Reason == vcfault.ReasonCancelled {
		st.blame(s, err)
		return err
	}
	st.inventory.SetSettings(nil, &err.Fault)
	return nil
}

// open creates a property collector with the filter, and reads its first answer, on which later answers are based.
func (st *Stream) open(ctx context.Context, s *session.Session, seen watched) (pc types.ManagedObjectReference, version string, err error) {
	if pc, err = collect(ctx, s, WatchSpec(s.Vim.ServiceContent.RootFolder)); err != nil {
		return pc, "", err
	}
	defer func() {
		if err != nil {
			CloseCollector(ctx, s, pc)
		}
	}()
	began, objects := time.Now(), 0
	for answer, pages := (paging{}), 1; ; pages++ {
		set, err := st.wait(session.WithoutValues(ctx), s.Slow, pc, version, st.maxWait, firstAnswer)
		if err != nil {
			return pc, "", err
		}
		if set == nil { // the account sees no object
			return pc, version, nil
		}
		more, err := answer.hasMore(set)
		if err != nil {
			return pc, "", err
		}
		version = set.Version
		seen.take(set)
		for _, filter := range set.FilterSet {
			objects += len(filter.ObjectSet)
		}
		if !more {
			took := time.Since(began)
			st.timed("first", took)
			st.log.Info().Int("objects", objects).Int("pages", pages).Dur("durationSeconds", took).Msg("vCenter's stream of changes is open")
			return pc, version, nil
		}
	}
}

// collect creates a property collector with a filter.
func collect(ctx context.Context, s *session.Session, spec types.PropertyFilterSpec) (pc types.ManagedObjectReference, err error) {
	made, err := methods.CreatePropertyCollector(ctx, s.Vim, &types.CreatePropertyCollector{This: s.Vim.ServiceContent.PropertyCollector})
	if err != nil {
		return pc, fmt.Errorf("create a property collector: %w", err)
	}
	pc = made.Returnval
	if _, err = methods.CreateFilter(ctx, s.Vim, &types.CreateFilter{This: pc, PartialUpdates: true, Spec: s.Supported(spec)}); err != nil {
		CloseCollector(ctx, s, pc)
		return pc, fmt.Errorf("create the filter: %w", err)
	}
	return pc, nil
}

// FirstAnswer opens the stream and closes it again. It returns the number of objects in the stream's first answer.
func (st *Stream) FirstAnswer(ctx context.Context, s *session.Session) (objects int, err error) {
	seen := watched{entered: map[string]bool{}, checked: map[string]bool{}}
	pc, _, err := st.open(ctx, s, seen)
	if err == nil {
		CloseCollector(ctx, s, pc)
	}
	return len(seen.entered), err
}

// CloseCollector removes a collector, its filter and any wait on it from vCenter, even when ctx has ended.
func CloseCollector(ctx context.Context, s *session.Session, pc types.ManagedObjectReference) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	// The call fails if the session is gone. Then the collector is gone, too.
	_, _ = methods.DestroyPropertyCollector(ctx, s.Vim, &types.DestroyPropertyCollector{This: pc})
}

// errSilent fails a stream whose calls vCenter no longer answers, although it answers other calls: only the stream is opened again.
// errUnresponsive fails a stream while vCenter answers no call at all.
var (
	errSilent       = vcfault.ForRetry(vcfault.ReasonVCenterUnreachable, "vCenter's stream of changes fell silent; the server opens it again.")
	errUnresponsive = vcfault.ForRetry(vcfault.ReasonVCenterUnreachable, "vCenter's stream of changes fell silent, and vCenter answers no other call; the server connects again.")
)

// updatesMost bounds the number of objects in one answer of the stream, so that vCenter answers soon even if many objects changed. vCenter
// may return fewer.
const updatesMost = 250

// wait makes one call of WaitForUpdatesEx. vCenter should answer within most, and must within bound. wait returns nil if nothing changed.
func (st *Stream) wait(ctx context.Context, vim *vim25.Client, pc types.ManagedObjectReference, version string, most, bound time.Duration) (*types.UpdateSet, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errSilent)
	defer cancel()
	seconds := int32(most / time.Second)
	res, err := methods.WaitForUpdatesEx(ctx, vim, &types.WaitForUpdatesEx{
		This: pc, Version: version, Options: &types.WaitOptions{MaxWaitSeconds: &seconds, MaxObjectUpdates: updatesMost}})
	if err != nil {
		if cause := context.Cause(ctx); cause == errSilent || cause == errUnresponsive {
			err = cause
		}
		return nil, fmt.Errorf("wait for updates: %w", err)
	}
	return res.Returnval, nil
}

// listen finds out, until ctx ends, whether vCenter answers other calls while a call of the stream is late. If it doesn't, listen calls
// unresponsive.
func (st *Stream) listen(ctx context.Context, s *session.Session, most time.Duration, unresponsive context.CancelCauseFunc) {
	for late := most; session.Sleep(ctx, late+st.silence); late = 0 {
		call, cancel := context.WithTimeout(ctx, answerMost)
		_, err := methods.GetCurrentTime(call, s.Vim)
		if cancel(); err != nil && !vcfault.NotAuthenticated(err) {
			unresponsive(errUnresponsive)
			return
		}
	}
}

// paging counts the pages of an answer that have come so far, and has the last one's version and first object.
type paging struct {
	pages   int
	version string
	first   types.ManagedObjectReference
}

// hasMore reports whether the next call returns the rest of an answer. It fails if the answer doesn't end: if a page repeats the one before it,
// or is empty. (The version alone doesn't show that: govmomi's own vcsim gives all pages but the first the version "P".)
func (p *paging) hasMore(set *types.UpdateSet) (bool, error) {
	if set.Truncated == nil || !*set.Truncated {
		*p = paging{}
		return false, nil
	}
	next := paging{pages: p.pages + 1, version: set.Version, first: firstOf(set)}
	if next.first.Value == "" || next.pages >= session.PagesMost || next.version == p.version && next.first == p.first {
		return false, session.Endless("WaitForUpdatesEx")
	}
	*p = next
	return true, nil
}

// firstOf returns the first object in an answer.
func firstOf(set *types.UpdateSet) (ref types.ManagedObjectReference) {
	for _, filter := range set.FilterSet {
		if len(filter.ObjectSet) > 0 {
			return filter.ObjectSet[0].Obj
		}
	}
	return ref
}

// follow tells the reader which objects changed, until the stream breaks.
//
// The stream does not report an object that was created and removed between two of its answers, but the reader may have read the object in
// between, at the end of the step that created it. So follow waits for a moment for members and folders that the stream did not report. If the
// stream still does not report them, the reader reads them again. (So members in nested vApps, which the stream never sees, are read every
// maxWait or so.)
func (st *Stream) follow(ctx context.Context, s *session.Session, pc types.ManagedObjectReference, version string, seen watched) error {
	st.inventory.unreported.expect(st.inventory.knownRefs()...)
	for answer := (paging{}); ; {
		unseen, most := st.inventory.unwatched(seen), st.maxWait
		if len(unseen) > 0 {
			most = shortWait
		}
		began := time.Now()
		heard, cancel := context.WithCancelCause(session.WithoutValues(ctx))
		go st.listen(heard, s, most, cancel)
		set, err := st.wait(heard, s.Vim, pc, version, most, most+overdueMost)
		cancel(nil)
		if err != nil {
			if !errors.Is(err, errSilent) {
				st.blame(s, err)
			}
			return err
		}
		more := false
		if set != nil {
			if more, err = answer.hasMore(set); err != nil {
				return err
			}
			version = set.Version
			st.inventory.unreported.expect(seen.take(set)...)
			st.reader.Enqueue(st.changed(set)...)
		} else if most == st.maxWait {
			clear(seen.checked)
		}
		if more {
			continue
		}
		for _, ref := range unseen {
			if !seen.entered[ref.Value] {
				st.reader.Enqueue(ref)
				seen.checked[ref.Value] = true
			}
		}
		early := time.Since(began) < most/2 // vCenter answers at once only if something changed
		if (set != nil || early) && !session.Sleep(ctx, streamPause) {
			return ctx.Err()
		}
	}
}

// changed lists the objects to read: all that changed, except for unmanaged VMs whose change is irrelevant, and for objects that left
// and were found gone by their last read. A VM that is being read is never left out, because it may have become a member.
func (st *Stream) changed(set *types.UpdateSet) []types.ManagedObjectReference {
	var refs []types.ManagedObjectReference
	for _, filter := range set.FilterSet {
		for _, o := range filter.ObjectSet {
			if o.Kind == types.ObjectUpdateKindModify && onlyRuntime(o.ChangeSet) && !st.reader.Busy(o.Obj) && st.inventory.IsUnmanaged(o.Obj.Value) {
				continue
			}
			if o.Kind == types.ObjectUpdateKindLeave && st.inventory.IsGone(o.Obj.Value) {
				continue
			}
			refs = append(refs, o.Obj)
		}
	}
	return refs
}

func onlyRuntime(changes []types.PropertyChange) bool {
	for _, c := range changes {
		switch name, _, _ := strings.Cut(c.Name, "["); name { // the change may be of one element of a list
		case "runtime.powerState", "runtime.bootTime", "runtime.host", "runtime.connectionState", "guest.ipAddress", "guest.net",
			"guest.toolsRunningStatus":
		default:
			return false
		}
	}
	return true
}

// unwatched returns the members, the places, and the VMs whose owner is unclear, that the stream has not reported and that were not read
// for that reason. VMs with an unclear owner include those that a group's status names and that are hidden from the server's account.
// unwatched considers only the objects of unreported: those that are new, or have left the stream.
func (n *Inventory) unwatched(seen watched) []types.ManagedObjectReference {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.unreported.unwatched(seen, func(moRef string) (ref types.ManagedObjectReference, is bool) {
		if p, is := n.objects.places.byRef[moRef]; is {
			return types.ManagedObjectReference{Type: p.Kind, Value: moRef}, true
		}
		return VMRef(moRef), n.objects.members[moRef] != nil || n.objects.unreadable[moRef]
	})
}
