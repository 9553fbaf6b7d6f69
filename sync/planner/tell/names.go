package tell

import (
	"cmp"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// nameStatuses lists what the names in the spec mean: as the status says, and as they were looked up since. It leaves out names that are no longer in the
// spec.
func (r *report) nameStatuses() []v1alpha1.NamedObject {
	var all []v1alpha1.NamedObject
	for _, from := range [][]v1alpha1.NamedObject{r.Group.Status.Names, r.State.Names} {
		for i := range from {
			all = slices.DeleteFunc(all, func(x v1alpha1.NamedObject) bool { return x.IsOf(&from[i]) })
			if isNamed(&r.Group.Spec, &from[i]) {
				all = append(all, printable(from[i]))
			}
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.NamedObject) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Zone, b.Zone))
	})
	return all[:min(len(all), v1alpha1.MaxNames)]
}

// nameEvents report that another object now has a name that the spec uses. The group ignores that object.
func (r *report) nameEvents(is *v1alpha1.VmGroupStatus) (all []plan.Event) {
	was := map[string]bool{}
	for _, n := range r.Group.Status.Names {
		for _, x := range n.Ignored {
			was[n.Field+n.Name+x.Object] = true
		}
	}
	for _, n := range is.Names {
		for _, x := range n.Ignored {
			if key := n.Field + n.Name + x.Object; !was[key] { // once for all zones
				was[key] = true
				all = append(all, plan.Event{Warning: true, Reason: "NameShared", At: r.Now, Key: "name/" + key + "/" + n.Object,
					What: fmt.Sprintf("%s (%s) has the name %q, too, which means %s in %s: it is ignored", x.Path, x.Object, n.Name, n.Object, n.Field)})
			}
		}
	}
	return all
}

// printable returns a record with paths that a status can have: anybody may have named the ignored objects.
func printable(x v1alpha1.NamedObject) v1alpha1.NamedObject {
	x.Ignored = slices.Clone(x.Ignored)
	for i := range x.Ignored {
		x.Ignored[i].Path = plan.Bounded(plan.Printable(x.Ignored[i].Path), pathMost)
	}
	return x
}

// pathMost is how long the path of an ignored object can be, in bytes.
const pathMost = 512

// isNamed reports whether a field of the spec has a name.
func isNamed(spec *v1alpha1.VmGroupSpec, x *v1alpha1.NamedObject) bool {
	p := &spec.Placement
	if plan.Printable(x.Name+x.Zone) != x.Name+x.Zone {
		return false
	}
	if x.Zone != "" && !slices.Contains(p.Zones, x.Zone) {
		return false
	}
	switch x.Field {
	case "spec.template":
		return x.Name == spec.Template
	case "spec.placement.datacenter":
		return x.Name == p.Datacenter
	case "spec.placement.pool":
		return x.Name == p.Pool
	case "spec.placement.zones":
		return slices.Contains(p.Zones, x.Name)
	case "spec.placement.datastore":
		return x.Name == p.Datastore
	case "spec.networks":
		return slices.ContainsFunc(spec.Networks, func(n v1alpha1.Network) bool { return n.Network == x.Name })
	}
	return false
}
