package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// maxWait is how long vCenter can keep a call of the stream open when nothing changes. It is below any
	// session's time-out.
	maxWait = 20 * time.Second
	// shortWait is the same while there are members that the stream did not report.
	shortWait = time.Second
	// patience is how long a call can overstay that while vCenter answers other calls: a busy one keeps the stream waiting.
	patience = time.Minute
	// silence is how long a call can overstay it before another call, which must be answered within answerMost, shows whether vCenter does.
	silence, answerMost = 10 * time.Second, 20 * time.Second
	// firstAnswer bounds each page of the stream's first answer, which has everything: vCenter may take longer for
	// it than WaitOptions.maxWaitSeconds.
	firstAnswer = 5 * time.Minute
	// streamPause lets changes accumulate in vCenter after some came, so that one call returns many.
	streamPause = 250 * time.Millisecond
	// rescan is when everything is read again for the first time after a stream was opened, to repair what it may have missed. Then it
	// is read again after twice that time, and so on: the longer a stream lasts, the rarer, but after rescanMost times rescan at most.
	// Whatever was asked for long ago is forgotten every rescan.
	rescan     = 5 * time.Minute
	rescanMost = 12
	// rulesAgain is how often the clusters are read while groups have DRS rules, or want some.
	rulesAgain = time.Minute
	// refit is how often the settings are looked up again while they do not fit, for the first minutes (session.Lasting).
	refit = 20 * time.Second
	// farewell bounds each call that cleans up in vCenter.
	farewell = 2 * time.Second
)

// Sessions provides the session for following vCenter. Lost reports that it is gone or unreachable; Health returns why there is none,
// or nil.
type Sessions interface {
	Session(ctx context.Context) (*session.Session, error)
	Lost(s *session.Session, err error)
	Health() *plan.Fault
}

// Stream asks vCenter for changes and tells the reader which objects changed. It only invalidates: its values may be
// old, while what the reader then reads is not.
type Stream struct {
	sessions  Sessions
	selection Selection
	inventory *Inventory
	reader    *Reader
	log       zerolog.Logger
	whole     atomic.Bool // everything was read at least once

	maxWait, silence time.Duration

	// Timed gets how long it took to read everything: the stream's "first" answer, and each "full" read. It can be nil.
	Timed func(read string, took time.Duration)

	// left is the previous collector. After a network failure its session may still exist.
	left struct {
		session   *session.Session
		collector types.ManagedObjectReference
	}
}

// WatchSpec lists the properties that vCenter sends updates of, for all places and VMs below root. Their values are dropped while they are
// read (session.WithoutValues): a VM is a member by its stamp, and guests of all others report addresses, too. The properties are few, because vcsim compares
// all of them for each update. A change of the hardware, or of the stamp, shows as config.changeVersion; bootTime shows that a guest was
// off for a moment only.
func WatchSpec(root types.ManagedObjectReference) types.PropertyFilterSpec {
	return types.PropertyFilterSpec{ObjectSet: everyVM(root), PropSet: append(placeSpecs(), types.PropertySpec{Type: "VirtualMachine", PathSet: []string{
		"name", "parent", "config.changeVersion", "config.template",
		"runtime.powerState", "runtime.bootTime", "runtime.connectionState", "runtime.host", "runtime.question", "guest.ipAddress", "guest.net", "guest.customizationInfo",
		"guest.toolsRunningStatus"}})}
}

// NewStream returns a Stream that does nothing until Run.
func NewStream(sessions Sessions, selection Selection, n *Inventory, r *Reader, log zerolog.Logger) *Stream {
	return &Stream{sessions: sessions, selection: selection, inventory: n, reader: r, log: log, maxWait: maxWait, silence: silence}
}

// The stream is opened again at once if it had lasted for a while, otherwise after growing pauses. The client has
// separate pauses between logins.
const (
	reopenMin = 200 * time.Millisecond
	reopenMax = 15 * time.Second
	heldWell  = 10 * time.Second
)

// Run follows vCenter until ctx ends. After that the inventory is unknown.
func (st *Stream) Run(ctx context.Context) {
	pause := reopenMin
	var failing time.Time // since when no stream lasted although there was a session
	for ctx.Err() == nil {
		began := time.Now()
		connected, err := st.live(ctx)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errSilent) {
			st.log.Warn().Err(err).Msg("vCenter's stream of changes is opened again")
		} else {
			st.broke(err)
		}
		if time.Since(began) > heldWell {
			pause = reopenMin
		}
		if !connected || failing.IsZero() || pause == reopenMin {
			failing = time.Now()
		}
		if !session.Sleep(ctx, session.Lasting(time.Since(failing), pause)) {
			break
		}
		pause = min(2*pause, reopenMax)
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
	// Closing the collector makes vCenter end the wait: after a mere disconnect it would continue there.
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
	case <-time.After(farewell):
	}
	return true, err
}

// broke declares the inventory unknown, and why. The client's reason takes precedence: it knows what all failing calls
// have in common.
func (st *Stream) broke(err error) {
	st.reader.Interrupt()
	why := st.sessions.Health()
	if why == nil {
		why = &vcfault.Classify("", err).Fault
	}
	if st.inventory.setUnknown(why) {
		st.log.Warn().Err(err).Str("reason", why.Reason).Msg("vCenter's inventory is not known any more")
	}
}

// blame tells the client that its session is gone, if that is what the error says.
func (st *Stream) blame(s *session.Session, err error) {
	switch e := vcfault.Classify("", err); e.Reason {
	case vcfault.ReasonVCenterUnreachable, vcfault.ReasonNotAuthenticated:
		st.sessions.Lost(s, e)
	}
}

// attend keeps up to date what the stream does not, until the stream breaks.
func (st *Stream) attend(ctx context.Context, s *session.Session, changes <-chan error) error {
	if err := st.Fit(ctx, s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began, scanned := time.Now(), st.scan(ctx, st.reader.Scan)
	every, left := 1, 1
	refits, rescans, rules := time.NewTimer(refit), time.NewTicker(rescan), time.NewTicker(rulesAgain)
	fitted := began // when the settings last fitted
	defer rules.Stop()
	defer refits.Stop()
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
				st.inventory.forgetRequests()
				continue
			}
			scanned = st.scan(ctx, st.reader.ScanAtLeisure)
			every = min(2*every, rescanMost)
			left = every
		case <-rules.C:
			if st.inventory.usesRules() {
				st.reader.TouchClusters()
			}
		case <-refits.C:
			if st.inventory.fits() {
				fitted = time.Now()
			} else if err := st.Fit(ctx, s); err != nil {
				return err
			}
			refits.Reset(session.Lasting(time.Since(fitted), refit))
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

// Fit looks up what the settings name. If they do not fit, it records that, and nothing breaks.
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

// open creates a property collector with the filter, and reads the state from which changes count.
func (st *Stream) open(ctx context.Context, s *session.Session, seen watched) (pc types.ManagedObjectReference, version string, err error) {
	made, err := methods.CreatePropertyCollector(ctx, s.Vim, &types.CreatePropertyCollector{This: s.Vim.ServiceContent.PropertyCollector})
	if err != nil {
		return pc, "", fmt.Errorf("create a property collector: %w", err)
	}
	pc = made.Returnval
	defer func() {
		if err != nil {
			CloseCollector(ctx, s, pc)
		}
	}()
	_, err = methods.CreateFilter(ctx, s.Vim, &types.CreateFilter{This: pc, PartialUpdates: true, Spec: s.Supported(WatchSpec(s.Vim.ServiceContent.RootFolder))})
	if err != nil {
		return pc, "", fmt.Errorf("create the filter: %w", err)
	}
	began, objects := time.Now(), 0
	for answer, pages := (paging{}), 1; ; pages++ {
		set, err := st.wait(ctx, s.Slow, pc, version, st.maxWait, firstAnswer)
		if err != nil {
			return pc, "", err
		}
		if set == nil { // nothing is visible to our user
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

// FirstAnswer opens the stream and closes it again, and counts the objects that it tells of at first.
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	// An error means that the session is gone, and the collector with it.
	_, _ = methods.DestroyPropertyCollector(ctx, s.Vim, &types.DestroyPropertyCollector{This: pc})
}

// errSilent: vCenter answers other calls than the stream's, which is opened again; nothing else is lost. errDeaf: it answers none.
var (
	errSilent = vcfault.New(vcfault.ReasonVCenterUnreachable, false, "vCenter's stream of changes fell silent; the server opens it again.")
	errDeaf   = vcfault.New(vcfault.ReasonVCenterUnreachable, false, "vCenter's stream of changes fell silent, and vCenter answers no other call; the server connects again.")
)

// updatesMost bounds the objects in one answer of the stream, so that each answer comes soon even if many objects changed. vCenter
// may return fewer.
const updatesMost = 250

// wait makes one WaitForUpdatesEx, which vCenter should answer within most, and must within bound. It returns nil if nothing changed.
func (st *Stream) wait(ctx context.Context, vim *vim25.Client, pc types.ManagedObjectReference, version string, most, bound time.Duration) (*types.UpdateSet, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errSilent)
	defer cancel()
	seconds := int32(most / time.Second)
	res, err := methods.WaitForUpdatesEx(session.WithoutValues(ctx), vim, &types.WaitForUpdatesEx{
		This: pc, Version: version, Options: &types.WaitOptions{MaxWaitSeconds: &seconds, MaxObjectUpdates: updatesMost}})
	if err != nil {
		if cause := context.Cause(ctx); cause == errSilent || cause == errDeaf {
			err = cause
		}
		return nil, fmt.Errorf("wait for updates: %w", err)
	}
	return res.Returnval, nil
}

// listen finds out whether vCenter answers other calls while one of the stream's is late, until ctx ends.
func (st *Stream) listen(ctx context.Context, s *session.Session, most time.Duration, deaf context.CancelCauseFunc) {
	for late := most; session.Sleep(ctx, late+st.silence); late = 0 {
		call, cancel := context.WithTimeout(ctx, answerMost)
		_, err := methods.GetCurrentTime(call, s.Vim)
		if cancel(); err != nil && !vcfault.NotAuthenticated(err) {
			deaf(errDeaf)
			return
		}
	}
}

// paging is how far an answer of several pages has come.
type paging struct {
	pages   int
	version string
	first   types.ManagedObjectReference
}

// hasMore reports whether the next call returns the rest of an answer. An answer ends: a page that repeats the one before it, or has
// nothing, is no part of one. (The version alone tells nothing: govmomi's own vcsim gives all pages but the first the version "P".)
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

// firstOf returns the first object that an answer tells of.
func firstOf(set *types.UpdateSet) (ref types.ManagedObjectReference) {
	for _, filter := range set.FilterSet {
		if len(filter.ObjectSet) > 0 {
			return filter.ObjectSet[0].Obj
		}
	}
	return ref
}

// watched are the objects that the stream has reported, and will report when they go.
type watched struct {
	entered map[string]bool
	// checked are those that it did not report, and that were read for that reason.
	checked map[string]bool
}

// take notes what an answer reports, and returns what left.
func (w watched) take(set *types.UpdateSet) (left []string) {
	for _, filter := range set.FilterSet {
		for _, o := range filter.ObjectSet {
			if o.Kind == types.ObjectUpdateKindLeave {
				delete(w.entered, o.Obj.Value)
				left = append(left, o.Obj.Value)
				continue
			}
			w.entered[o.Obj.Value] = true
			delete(w.checked, o.Obj.Value)
		}
	}
	return left
}

// follow tells the reader what changed, until the stream breaks.
//
// The stream does not report an object that came and went between two of its answers; but the reader may have read
// it in between, at the end of the step that made it. So follow waits shortly for members and folders that the stream did not
// report, and if it still does not, they are read again. (Members in nested vApps, which the
// stream never sees, are therefore read every maxWait or so.)
func (st *Stream) follow(ctx context.Context, s *session.Session, pc types.ManagedObjectReference, version string, seen watched) error {
	st.inventory.requests.hearOf(st.inventory.knownRefs()...)
	for answer := (paging{}); ; {
		unseen, most := st.inventory.unwatched(seen), st.maxWait
		if len(unseen) > 0 {
			most = shortWait
		}
		began := time.Now()
		heard, cancel := context.WithCancelCause(ctx)
		go st.listen(heard, s, most, cancel)
		set, err := st.wait(heard, s.Vim, pc, version, most, most+patience)
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
			st.inventory.requests.hearOf(seen.take(set)...)
			st.reader.Touch(st.changed(set)...)
		} else if most == st.maxWait {
			clear(seen.checked)
		}
		if more {
			continue
		}
		for _, ref := range unseen {
			if !seen.entered[ref.Value] {
				st.reader.Touch(ref)
				seen.checked[ref.Value] = true
			}
		}
		hasty := time.Since(began) < most/2 // vCenter answers at once only if something changed
		if (set != nil || hasty) && !session.Sleep(ctx, streamPause) {
			return ctx.Err()
		}
	}
}

// changed lists what to read: everything that changed, except for irrelevant changes of unmanaged
// VMs, and for objects that left and whose last read found them gone. A VM that is being read may have become a member.
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
