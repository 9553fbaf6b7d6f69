package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// maxWait is how long vCenter may hold a call of the stream open when nothing changes. It is below any
	// session's time-out.
	maxWait = 20 * time.Second
	// shortWait is the same while there are members that the stream did not report.
	shortWait = time.Second
	// patience is how long a call may overstay that while vCenter answers other calls: a busy one keeps the stream waiting.
	patience = time.Minute
	// silence is how long a call may overstay it before another call, which must be answered within answerMost, shows whether vCenter does.
	silence, answerMost = 10 * time.Second, 20 * time.Second
	// firstAnswer bounds each page of the stream's first answer, which has everything: vCenter may take longer for
	// it than WaitOptions.maxWaitSeconds.
	firstAnswer = 5 * time.Minute
	// streamPause lets changes accumulate in vCenter after some came, so that one call returns many.
	streamPause = 250 * time.Millisecond
	// rescan is when everything is read again for the first time after a stream was opened, to repair what it may have missed. Then it
	// is read again after twice that time, and so on: the longer a stream holds, the rarer, but after rescanMost times rescan at most.
	// Whatever was asked for long ago is forgotten every rescan.
	rescan     = 5 * time.Minute
	rescanMost = 12
	// rulesAgain is how often the clusters are read while groups have DRS rules, or want some.
	rulesAgain = time.Minute
	// refit is how often the settings are looked up again while they do not fit.
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

	// Timed gets how long it took to read everything: the stream's "first" answer, and each "full" read. It may be nil.
	Timed func(read string, took time.Duration)

	// left is the previous collector. After a network failure its session may still exist.
	left struct {
		session   *session.Session
		collector types.ManagedObjectReference
	}
}

// WatchSpec lists the properties that vCenter sends updates of, for all places and VMs below root. They are few, because vcsim compares
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

// The stream is opened again at once if it had held for a while, otherwise after growing pauses. The client has
// separate pauses between logins.
const (
	reopenMin = 200 * time.Millisecond
	reopenMax = 15 * time.Second
	heldWell  = 10 * time.Second
)

// Run follows vCenter until ctx ends. After that the inventory is unknown.
func (st *Stream) Run(ctx context.Context) {
	pause := reopenMin
	for ctx.Err() == nil {
		began := time.Now()
		err := st.live(ctx)
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
		if !session.Sleep(ctx, pause) {
			break
		}
		pause = min(2*pause, reopenMax)
	}
	st.inventory.setUnknown(nil)
}

// WasRead reports whether the inventory was read completely at least once.
func (st *Stream) WasRead() bool { return st.whole.Load() }

// live runs one stream: it begins with a read of everything, and ends when the stream breaks.
func (st *Stream) live(ctx context.Context) error {
	s, err := st.sessions.Session(ctx)
	if err != nil {
		return err
	}
	if st.left.session == s {
		CloseCollector(ctx, s, st.left.collector)
	}
	seen := watched{entered: map[string]bool{}, checked: map[string]bool{}}
	pc, version, err := st.open(ctx, s, seen)
	st.left.session, st.left.collector = s, pc
	if err != nil {
		st.blame(s, err)
		return err
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
	return err
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
	refits, rescans, rules := time.NewTicker(refit), time.NewTicker(rescan), time.NewTicker(rulesAgain)
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
			if !st.inventory.fits() {
				if err := st.Fit(ctx, s); err != nil {
					return err
				}
			}
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
		set, err := st.wait(session.Patiently(ctx), s, pc, version, st.maxWait, firstAnswer)
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
