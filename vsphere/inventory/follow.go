package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// errSilent: vCenter answers other calls than the stream's, which is opened again; nothing else is lost. errDeaf: it answers none.
var (
	errSilent = vcfault.New(vcfault.ReasonVCenterUnreachable, false, "vCenter's stream of changes fell silent; the server opens it again.")
	errDeaf   = vcfault.New(vcfault.ReasonVCenterUnreachable, false, "vCenter's stream of changes fell silent, and vCenter answers no other call; the server connects again.")
)

// updatesMost bounds the objects in one answer of the stream, so that each answer comes soon even if many objects changed. vCenter
// may return fewer.
const updatesMost = 250

// wait makes one WaitForUpdatesEx, which vCenter should answer within most, and must within bound. It returns nil if nothing changed.
func (st *Stream) wait(ctx context.Context, s *session.Session, pc types.ManagedObjectReference, version string, most, bound time.Duration) (*types.UpdateSet, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errSilent)
	defer cancel()
	seconds := int32(most / time.Second)
	res, err := methods.WaitForUpdatesEx(ctx, s.Vim, &types.WaitForUpdatesEx{
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
	st.inventory.hearOf(st.inventory.knownRefs()...)
	for answer := (paging{}); ; {
		unseen, most := st.inventory.unwatched(seen), st.maxWait
		if len(unseen) > 0 {
			most = shortWait
		}
		began := time.Now()
		heard, cancel := context.WithCancelCause(ctx)
		go st.listen(heard, s, most, cancel)
		set, err := st.wait(heard, s, pc, version, most, most+patience)
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
			st.inventory.hearOf(seen.take(set)...)
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
