package property

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// compare returns the objects that entered or left a filter's selection and the changes of the others. It selects first and then reads only
// new and changed objects. The caller holds the world lock.
func (pc *collector) compare(ctx *simulator.Context, f *filter, since uint64) ([]types.ObjectUpdate, types.BaseMethodFault) {
	first := f.sent == nil
	if first {
		f.sent = make(map[types.ManagedObjectReference]values)
	}
	selection := f.selection()
	if !first {
		// [doc] An object that a filter names leaves when it is deleted.
		selection.ReportMissingObjectsInResults = types.NewBool(true)
	}
	selected, fault := pc.contents(ctx, selection)
	if fault != nil {
		return nil, fault
	}
	unsent := types.PropertyFilterSpec{PropSet: f.spec.PropSet, ReportMissingObjectsInResults: types.NewBool(true)}
	present := make(map[types.ManagedObjectReference]bool, len(selected))
	for _, o := range selected {
		present[o.Obj] = true
		if _, known := f.sent[o.Obj]; !known || pc.v.world.Since(o.Obj, since) {
			unsent.ObjectSet = append(unsent.ObjectSet, types.ObjectSpec{Obj: o.Obj})
		}
	}
	var updates []types.ObjectUpdate
	for ref := range f.sent {
		if !present[ref] {
			delete(f.sent, ref)
			updates = append(updates, types.ObjectUpdate{Kind: types.ObjectUpdateKindLeave, Obj: ref})
		}
	}
	if len(unsent.ObjectSet) == 0 {
		return updates, nil
	}
	read, fault := pc.contents(ctx, unsent)
	if fault != nil {
		return nil, fault
	}
	for _, o := range read {
		if update, changed := f.update(o); changed {
			updates = append(updates, update)
		}
	}
	return updates, nil
}

// selection returns the filter's selection without properties.
func (f *filter) selection() types.PropertyFilterSpec {
	selection := types.PropertyFilterSpec{ObjectSet: f.spec.ObjectSet}
	for _, p := range f.spec.PropSet {
		selection.PropSet = append(selection.PropSet, types.PropertySpec{Type: p.Type})
	}
	return selection
}

// update returns what to send to the client about an object; changed is false if it has not changed since the last time.
func (f *filter) update(o types.ObjectContent) (u types.ObjectUpdate, changed bool) {
	before, known := f.sent[o.Obj]
	now := make(values, len(o.PropSet))
	for _, p := range o.PropSet {
		now[p.Name] = p.Val
	}
	f.sent[o.Obj] = now
	u = types.ObjectUpdate{Kind: types.ObjectUpdateKindEnter, Obj: o.Obj, MissingSet: o.MissingSet}
	if known {
		u.Kind = types.ObjectUpdateKindModify
	}
	for _, p := range o.PropSet {
		if old, ok := before[p.Name]; !ok || !reflect.DeepEqual(old, p.Val) {
			u.ChangeSet = append(u.ChangeSet, assign(p.Name, p.Val))
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			u.ChangeSet = append(u.ChangeSet, assign(name, nil)) // unset
		}
	}
	return u, !known || len(u.ChangeSet) > 0
}

func assign(name string, value types.AnyType) types.PropertyChange {
	return types.PropertyChange{Name: name, Op: types.PropertyChangeOpAssign, Val: value}
}

func (pc *collector) contents(ctx *simulator.Context, spec types.PropertyFilterSpec) ([]types.ObjectContent, types.BaseMethodFault) {
	body := pc.read(ctx, &types.RetrievePropertiesEx{This: pc.Self, SpecSet: []types.PropertyFilterSpec{spec}})
	if f := body.Fault(); f != nil {
		return nil, f.VimFault().(types.BaseMethodFault)
	}
	return body.Res.Returnval.Objects, nil
}
