package inventory

import (
	"iter"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// placeKey is a name below a parent, which is unique in vCenter.
type placeKey struct{ parent, name string }

// places indexes the containers of VMs, for paths and for finding a group's folder.
type places struct {
	byRef  map[string]Place
	byName map[placeKey]string
	// byFold is keyed by the name in lower case: vCenter ignores case, so a folder that an operator created as "Shop" is the namespace
	// shop's.
	byFold map[placeKey]string
}

func newPlaces(size int) *places {
	return &places{byRef: make(map[string]Place, size), byName: make(map[placeKey]string, size), byFold: make(map[placeKey]string, size)}
}

func (p *places) put(x Place) {
	p.drop(x.MoRef)
	p.byRef[x.MoRef] = x
	p.byName[placeKey{x.Parent, x.Name}] = x.MoRef
	p.byFold[placeKey{x.Parent, strings.ToLower(x.Name)}] = x.MoRef
}

func (p *places) drop(ref string) {
	x, found := p.byRef[ref]
	if !found {
		return
	}
	delete(p.byRef, ref)
	if s := (placeKey{x.Parent, x.Name}); p.byName[s] == ref {
		delete(p.byName, s)
	}
	if s := (placeKey{x.Parent, strings.ToLower(x.Name)}); p.byFold[s] == ref {
		delete(p.byFold, s)
	}
}

// below finds a place by the names that lead to it from another place; empty if there is none.
func (p *places) below(ref string, names ...string) string {
	for _, name := range names {
		if ref == "" {
			return ""
		}
		at, exact := p.byName[placeKey{ref, name}]
		if !exact {
			at = p.byFold[placeKey{ref, strings.ToLower(name)}]
		}
		ref = at
	}
	return ref
}

// deepest bounds the places that above iterates over. No inventory is that deep, but the parents in vCenter's answers may form a circle.
const deepest = 100

// above iterates over a place and those that contain it, from the inside out.
func (p *places) above(ref string) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for range deepest {
			x, found := p.byRef[ref]
			if !found || !yield(x) {
				return
			}
			ref = x.Parent
		}
	}
}

// path returns the inventory path of a name within a place, "/DC0/vm/web/web-0", escaped as vCenter shows it, without
// the root folder.
func (p *places) path(parent, name string) string {
	parts := []string{name}
	for x := range p.above(parent) {
		if x.Parent != "" {
			parts = append(parts, x.Name)
		}
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.WriteString(parts[i])
	}
	return b.String()
}

// names returns the names of a place and of those that contain it, from the root folder down, as people write them; nil if one
// is unknown.
func (p *places) names(ref string) []string {
	var names []string
	for x := range p.above(ref) {
		if x.Parent == "" {
			slices.Reverse(names)
			return names
		}
		names = append(names, naming.Unescape(x.Name))
	}
	return nil
}

// datacenter returns the moRef of the datacenter that a place is, or is in; empty if unknown.
func (p *places) datacenter(ref string) string {
	for x := range p.above(ref) {
		if x.Kind == "Datacenter" {
			return x.MoRef
		}
	}
	return ""
}

// vmFolder returns the VM folder of a datacenter: it is the only child of a datacenter that the server reads.
func (p *places) vmFolder(datacenter string) string {
	if ref := p.below(datacenter, "vm"); ref != "" {
		return ref
	}
	for _, x := range p.byRef {
		if x.Parent == datacenter && x.Kind == "Folder" {
			return x.MoRef
		}
	}
	return ""
}
