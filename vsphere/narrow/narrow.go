// Package narrow reads objects of vCenter by their moRefs so that one bad object does not keep the others from being known: it asks
// again by halves, down to those that cannot be read even alone. It promises that every object is read, gone, unread or hidden, and
// that a failure that is none of the objects' ends the reading. It has no lock.
package narrow

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Reading is one reading of objects by their moRefs.
//
// Those that are gone are left out of an answer, for that is what it asks for: reportMissingObjectsInResults, since vSphere API 4.1,
// is "the recommended setting when objectSet refers to transient objects", and in "a RetrieveResult missing objects will simply be
// omitted" (PropertyFilterSpec in VMware's reference). What is left out may also be hidden, so only a read of the object alone says
// that it is gone. Any other fault fails a whole call, whichever object it is about: a host that vanishes while its VMs are read, a
// privilege. So the objects are read again by halves, down to those that cannot be read even alone.
type Reading struct {
	session     *session.Session
	spec, plain Spec
	refused     int // how many calls failed

	// Objects are those that were read, and Gone those that vCenter does not have.
	Objects []types.ObjectContent
	Gone    []types.ManagedObjectReference
	// Unread says why each cannot be read.
	Unread map[types.ManagedObjectReference]error
}

// Spec says what is read of objects.
type Spec func([]types.ManagedObjectReference) types.PropertyFilterSpec

// New has read nothing yet. plain leaves out what a traversal of spec would lead to.
func New(s *session.Session, spec, plain Spec) *Reading {
	return &Reading{session: s, spec: spec, plain: plain}
}

// refusedMost bounds the calls that fail in one narrowing. More are no matter of single objects.
const refusedMost = 64

// Read reads objects. Those that are in no list afterwards are hidden. An error is a failure that is none of the objects'.
func (n *Reading) Read(ctx context.Context, refs []types.ManagedObjectReference) error {
	if len(refs) == 0 {
		return nil
	}
	alone := len(refs) == 1
	spec := n.spec(refs)
	spec.ReportMissingObjectsInResults = types.NewBool(!alone)
	objects, err := session.Retrieve(ctx, n.session, spec)
	if err == nil {
		n.Objects = append(n.Objects, objects...)
		if alone {
			return nil
		}
		return n.each(ctx, untold(refs, objects))
	}
	if n.refused++; n.refused > refusedMost || Fatal(err) {
		return err
	}
	missing := vcfault.MissingObject(err)
	switch at := slices.Index(refs, missing); {
	case alone && at == 0:
		n.Gone = append(n.Gone, missing)
		return nil
	case alone:
		return n.readPlain(ctx, refs)
	case at >= 0: // it is told by name, as by a vCenter that does not heed what is asked for
		if err := n.Read(ctx, refs[at:at+1]); err != nil {
			return err
		}
		return n.Read(ctx, slices.Concat(refs[:at], refs[at+1:]))
	}
	half := len(refs) / 2
	if err := n.Read(ctx, refs[:half]); err != nil {
		return err
	}
	return n.Read(ctx, refs[half:])
}

// each reads objects one by one.
func (n *Reading) each(ctx context.Context, refs []types.ManagedObjectReference) error {
	for i := range refs {
		if err := n.Read(ctx, refs[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// readPlain reads one object without what a traversal from it leads to: it may be a host that cannot be read.
func (n *Reading) readPlain(ctx context.Context, refs []types.ManagedObjectReference) error {
	objects, err := session.Retrieve(ctx, n.session, n.plain(refs))
	switch {
	case err == nil:
		n.Objects = append(n.Objects, objects...)
	case vcfault.MissingObject(err) == refs[0]:
		n.Gone = append(n.Gone, refs[0])
	case Fatal(err):
		return err
	default:
		if n.Unread == nil {
			n.Unread = map[types.ManagedObjectReference]error{}
		}
		n.Unread[refs[0]] = err
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

// Fatal reports whether a failure is none of the objects': the next call would fail as well.
func Fatal(err error) bool {
	switch vcfault.Classify("", err).Reason {
	case vcfault.ReasonVCenterUnreachable, vcfault.ReasonNotAuthenticated, vcfault.ReasonTimeout, vcfault.ReasonCancelled, vcfault.ReasonNotVCenterAPI:
		return true
	}
	return false
}
