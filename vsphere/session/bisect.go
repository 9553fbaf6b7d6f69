// This file reads objects of vCenter by moRef. If one object makes a call fail, it bisects the list, so that the others are still read, and
// finds the objects that cannot be read even alone. It promises that every object is read, gone, unread or hidden, and
// that a failure that no object causes ends the reading. It has no lock.

package session

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Bisection is one reading of objects by moRef.
//
// Objects that are gone are omitted from the answer, as the call requests: reportMissingObjectsInResults, since vSphere API 4.1,
// is "the recommended setting when objectSet refers to transient objects", and in "a RetrieveResult missing objects will simply be
// omitted" (PropertyFilterSpec in VMware's reference). An omitted object may also be hidden, so only a read of the object alone shows
// that it is gone. Any other fault of one object fails the whole call, for example a host that vanishes while its VMs are read, or a missing
// privilege. So the list is bisected, down to the objects that cannot be read even alone.
type Bisection struct {
	session     *Session
	spec, plain ReadSpec
	take        func([]types.ObjectContent) error
	refused     int // the number of failed calls, without those whose fault named a missing object

	// Gone are the objects that vCenter does not have.
	Gone []types.ManagedObjectReference
	// Unread has the error of each object that cannot be read.
	Unread map[types.ManagedObjectReference]error
	// WithoutNet are the objects that were read without guest.net, because it is larger than an answer can be (xmlBounds).
	WithoutNet []types.ManagedObjectReference
}

// ReadSpec returns the specification of a read of these objects.
type ReadSpec func([]types.ManagedObjectReference) types.PropertyFilterSpec

// NewBisection returns a Bisection that has read nothing yet. plain is spec without traversals to other objects. take gets the objects of each answer
// before the next call, so that no two answers need memory at once; an error of take ends the reading.
func NewBisection(s *Session, spec, plain ReadSpec, take func([]types.ObjectContent) error) *Bisection {
	return &Bisection{session: s, spec: spec, plain: plain, take: take}
}

// bisectMost bounds the failed calls of one reading. If more fail, single objects are not the cause.
const bisectMost = 64

// Read reads objects. Objects that are in none of the lists afterwards are hidden. Read returns an error for a failure that no object causes.
func (n *Bisection) Read(ctx context.Context, refs []types.ManagedObjectReference) error {
	if len(refs) == 0 {
		return nil
	}
	alone := len(refs) == 1
	spec := n.spec(refs)
	spec.ReportMissingObjectsInResults = types.NewBool(!alone)
	objects, err := Retrieve(ctx, n.session, spec)
	if err == nil {
		left := unanswered(refs, objects)
		if err := n.take(objects); err != nil || alone {
			return err
		}
		return n.each(ctx, left)
	}
	// A fault that names a missing object is about that object alone, and is not counted: an operator may have destroyed hundreds of VMs at once.
	switch at := slices.Index(refs, vcfault.MissingObject(err)); {
	case at == 0 && alone:
		n.Gone = append(n.Gone, refs[0])
		return nil
	case at >= 0: // vCenter ignored reportMissingObjectsInResults
		if err := n.Read(ctx, refs[at:at+1]); err != nil {
			return err
		}
		return n.Read(ctx, slices.Concat(refs[:at], refs[at+1:]))
	}
	if n.refused++; n.refused > bisectMost || IsFatal(err) {
		return err
	}
	if alone {
		return n.readPlain(ctx, refs)
	}
	half := len(refs) / 2
	if err := n.Read(ctx, refs[:half]); err != nil {
		return err
	}
	return n.Read(ctx, refs[half:])
}

// each reads objects one by one.
func (n *Bisection) each(ctx context.Context, refs []types.ManagedObjectReference) error {
	for i := range refs {
		if err := n.Read(ctx, refs[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// readPlain reads one object without traversals: the object that can't be read may be its host.
func (n *Bisection) readPlain(ctx context.Context, refs []types.ManagedObjectReference) error {
	spec := n.plain(refs)
	objects, err := Retrieve(ctx, n.session, spec)
	if isTooLarge(err) && dropNet(spec.PropSet) {
		if objects, err = Retrieve(ctx, n.session, spec); err == nil {
			n.WithoutNet = append(n.WithoutNet, refs[0])
		}
	}
	switch {
	case err == nil:
		return n.take(objects)
	case vcfault.MissingObject(err) == refs[0]:
		n.Gone = append(n.Gone, refs[0])
	case IsFatal(err):
		return err
	default:
		if n.Unread == nil {
			n.Unread = map[types.ManagedObjectReference]error{}
		}
		n.Unread[refs[0]] = err
	}
	return nil
}

func isTooLarge(err error) bool {
	return err != nil && vcfault.Classify("", err).Reason == vcfault.ReasonAnswerTooLarge
}

// GuestNet is the property with what a guest reports of its adapters.
const GuestNet = "guest.net"

// dropNet removes guest.net from a spec, and reports whether the spec had it. It is the only property that the server reads whose size a guest
// determines.
func dropNet(specs []types.PropertySpec) (had bool) {
	for i := range specs {
		before := len(specs[i].PathSet)
		specs[i].PathSet = slices.DeleteFunc(slices.Clone(specs[i].PathSet), func(path string) bool { return path == GuestNet })
		had = had || len(specs[i].PathSet) < before
	}
	return had
}

// unanswered returns the objects that an answer lacks.
func unanswered(refs []types.ManagedObjectReference, objects []types.ObjectContent) (left []types.ManagedObjectReference) {
	answered := make(map[types.ManagedObjectReference]bool, len(objects))
	for i := range objects {
		answered[objects[i].Obj] = true
	}
	for _, ref := range refs {
		if !answered[ref] {
			left = append(left, ref)
		}
	}
	return left
}

// IsFatal reports whether no object caused a failure, so that the next call would fail, too.
func IsFatal(err error) bool {
	switch vcfault.Classify("", err).Reason {
	case vcfault.ReasonVCenterUnreachable, vcfault.ReasonNotAuthenticated, vcfault.ReasonTimeout, vcfault.ReasonCancelled, vcfault.ReasonNotVCenterAPI:
		return true
	}
	return false
}

// ReadVMs reads the properties of a table of VMs. It leaves out VMs that no longer exist or can't be read.
func ReadVMs(ctx context.Context, s *Session, refs []types.ManagedObjectReference, paths []string) ([]Object, error) {
	spec := func(refs []types.ManagedObjectReference) types.PropertyFilterSpec {
		spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: paths}}}
		for _, ref := range refs {
			spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
		}
		return spec
	}
	var all []Object
	err := NewBisection(s, spec, spec, func(objects []types.ObjectContent) error {
		all = append(all, Objects(objects)...)
		return nil
	}).Read(ctx, refs)
	return all, err
}
