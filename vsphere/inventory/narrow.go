package inventory

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// narrowing reads objects by their moRefs, so that one bad object does not keep the others from being known.
//
// Those that are gone are left out of an answer, for that is what it asks for: reportMissingObjectsInResults, since vSphere API 4.1,
// is "the recommended setting when objectSet refers to transient objects", and in "a RetrieveResult missing objects will simply be
// omitted" (PropertyFilterSpec in VMware's reference). What is left out may also be hidden, so only a read of the object alone says
// that it is gone. Any other fault fails a whole call, whichever object it is about: a host that vanishes while its VMs are read, a
// privilege. So the objects are read again by halves, down to those that cannot be read even alone.
type narrowing struct {
	session *session.Session
	// spec reads these objects; plain leaves out what a traversal would lead to.
	spec, plain func([]types.ManagedObjectReference) types.PropertyFilterSpec
	// refused counts the calls that failed.
	refused int

	objects []types.ObjectContent
	gone    []types.ManagedObjectReference
	unread  map[types.ManagedObjectReference]error // why each cannot be read
}

// refusedMost bounds the calls that fail in one narrowing. More are no matter of single objects.
const refusedMost = 64

// read reads objects. Those that are in no list afterwards are hidden.
func (n *narrowing) read(ctx context.Context, refs []types.ManagedObjectReference) error {
	if len(refs) == 0 {
		return nil
	}
	alone := len(refs) == 1
	spec := n.spec(refs)
	spec.ReportMissingObjectsInResults = types.NewBool(!alone)
	objects, err := session.Retrieve(ctx, n.session, spec)
	if err == nil {
		n.objects = append(n.objects, objects...)
		if alone {
			return nil
		}
		return n.each(ctx, untold(refs, objects))
	}
	if n.refused++; n.refused > refusedMost || fatal(err) {
		return err
	}
	missing := vcfault.MissingObject(err)
	switch at := slices.Index(refs, missing); {
	case alone && at == 0:
		n.gone = append(n.gone, missing)
		return nil
	case alone:
		return n.readPlain(ctx, refs)
	case at >= 0: // it is told by name, as by a vCenter that does not heed what is asked for
		if err := n.read(ctx, refs[at:at+1]); err != nil {
			return err
		}
		return n.read(ctx, slices.Concat(refs[:at], refs[at+1:]))
	}
	half := len(refs) / 2
	if err := n.read(ctx, refs[:half]); err != nil {
		return err
	}
	return n.read(ctx, refs[half:])
}

// each reads objects one by one.
func (n *narrowing) each(ctx context.Context, refs []types.ManagedObjectReference) error {
	for i := range refs {
		if err := n.read(ctx, refs[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// readPlain reads one object without what a traversal from it leads to: it may be a host that cannot be read.
func (n *narrowing) readPlain(ctx context.Context, refs []types.ManagedObjectReference) error {
	objects, err := session.Retrieve(ctx, n.session, n.plain(refs))
	switch {
	case err == nil:
		n.objects = append(n.objects, objects...)
	case vcfault.MissingObject(err) == refs[0]:
		n.gone = append(n.gone, refs[0])
	case fatal(err):
		return err
	default:
		if n.unread == nil {
			n.unread = map[types.ManagedObjectReference]error{}
		}
		n.unread[refs[0]] = err
	}
	return nil
}

// untold are those that an answer does not tell of.
func untold(refs []types.ManagedObjectReference, objects []types.ObjectContent) (left []types.ManagedObjectReference) {
	told := make(map[types.ManagedObjectReference]bool, len(objects))
	for i := range objects {
		told[objects[i].Obj] = true
	}
	for _, ref := range refs {
		if !told[ref] {
			left = append(left, ref)
		}
	}
	return left
}

// fatal reports whether a failure is none of the objects': the next call would fail as well.
func fatal(err error) bool {
	switch vcfault.Classify("", err).Reason {
	case vcfault.ReasonVCenterUnreachable, vcfault.ReasonNotAuthenticated, vcfault.ReasonTimeout, vcfault.ReasonCancelled, vcfault.ReasonNotVCenterAPI:
		return true
	}
	return false
}
