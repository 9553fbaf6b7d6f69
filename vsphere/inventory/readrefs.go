package inventory

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// VMRef is the reference of a VM.
func VMRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef}
}

// FolderRef is the reference of a folder.
func FolderRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Folder", Value: moRef}
}

// VMRefs are the references of VMs.
func VMRefs(moRefs []string) []types.ManagedObjectReference {
	refs := make([]types.ManagedObjectReference, len(moRefs))
	for i, moRef := range moRefs {
		refs[i] = VMRef(moRef)
	}
	return refs
}

// readRefs reads VMs and places by their moRefs into r.
func readRefs(ctx context.Context, s *session.Session, refs []types.ManagedObjectReference, r *Reading) error {
	for chunk := range slices.Chunk(refs, bulk) {
		before, hosts := len(r.Machines), map[string]string{}
		n := session.NewBisection(s, fullSpec, plainSpec, func(objects []types.ObjectContent) error {
			r.decode(objects, hosts)
			return nil
		})
		if err := n.Read(ctx, chunk); err != nil {
			return err
		}
		for i := range r.Machines[before:] { // a VM that was read alone may have come before its host
			r.Machines[before+i].Host = hosts[r.Machines[before+i].HostRef]
		}
		living := slices.Clone(chunk)
		for _, gone := range n.Gone {
			r.Gone = append(r.Gone, gone.Value)
			living = slices.DeleteFunc(living, func(ref types.ManagedObjectReference) bool { return ref == gone })
		}
		r.hide(living)
		for _, ref := range n.WithoutNet {
			r.WithoutNet = append(r.WithoutNet, ref.Value)
		}
		for i := range r.Machines[before:] {
			r.Machines[before+i].Whole = true
		}
	}
	return nil
}

// bulk is how many objects one call reads.
const bulk = 250

// fullSpec reads all properties that a member needs, and the hosts' names in the same call.
func fullSpec(refs []types.ManagedObjectReference) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{PropSet: append(placeSpecs(),
		types.PropertySpec{Type: "VirtualMachine", PathSet: new(answer).properties().Paths()},
		types.PropertySpec{Type: "HostSystem", PathSet: []string{"name"}})}
	host := []types.BaseSelectionSpec{&types.TraversalSpec{Type: "VirtualMachine", Path: "runtime.host"}}
	for _, ref := range refs {
		o := types.ObjectSpec{Obj: ref}
		if ref.Type == "VirtualMachine" {
			o.SelectSet = host
		}
		spec.ObjectSet = append(spec.ObjectSet, o)
	}
	return spec
}

// plainSpec is fullSpec without the hosts.
func plainSpec(refs []types.ManagedObjectReference) types.PropertyFilterSpec {
	spec := fullSpec(refs)
	for i := range spec.ObjectSet {
		spec.ObjectSet[i].SelectSet = nil
	}
	return spec
}

// templateAnswer is what is read of templates only.
type templateAnswer struct {
	devices []types.BaseVirtualDevice
	host    types.ManagedObjectReference
}

func (x *templateAnswer) properties() session.Properties {
	return session.Properties{session.Devices(&x.devices), session.To("runtime.host", &x.host)}
}

// readTemplates fills in the fingerprints and hosts of the templates of a reading, with one more call for up to 250 of them.
// A fingerprint is the only reason to read the devices of unmanaged VMs. A fingerprint that cannot be read is empty, and blocks nothing. A
// failure that no template causes fails the whole reading, which is repeated: a clone keeps for life the fingerprint that its template had.
func readTemplates(ctx context.Context, s *session.Session, r *Reading) error {
	templates := map[types.ManagedObjectReference]*Machine{}
	var refs []types.ManagedObjectReference
	for i := range r.Machines {
		if m := &r.Machines[i]; m.Template && m.Readable {
			templates[VMRef(m.MoRef)] = m
			refs = append(refs, VMRef(m.MoRef))
		}
	}
	for chunk := range slices.Chunk(refs, bulk) {
		objects, err := session.ReadVMs(ctx, s, chunk, new(templateAnswer).properties().Paths())
		if err != nil && (session.IsFatal(err) || ctx.Err() != nil) {
			return err
		}
		for _, o := range objects {
			if m := templates[o.Ref]; m != nil {
				var x templateAnswer
				o.Into(x.properties())
				m.HostRef = x.host.Value
				if x.devices != nil {
					m.Contents = disks.Fingerprint(m.InstanceUUID, x.devices)
				}
			}
		}
	}
	return nil
}
