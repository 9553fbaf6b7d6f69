package property

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// compare finds out which objects entered a filter's selection, which left it, and what changed of the
// others. First it only selects; then it reads what is new, or has changed since. The caller holds the world.
func (pc *collector) compare(ctx *simulator.Context, f *filter, since uint64) ([]types.ObjectUpdate, types.BaseMethodFault) {
	first := f.told == nil
	if first {
		f.told = make(map[types.ManagedObjectReference]told)
	}
	selection := f.selection()
	if !first {
		// [doc] An object that a filter names, and that is gone later, leaves.
		selection.ReportMissingObjectsInResults = types.NewBool(true)
	}
	selected, fault := pc.contents(ctx, selection)
	if fault != nil {
		return nil, fault
	}
	values := types.PropertyFilterSpec{PropSet: f.spec.PropSet, ReportMissingObjectsInResults: types.NewBool(true)}
	present := make(map[types.ManagedObjectReference]bool, len(selected))
	for _, o := range selected {
		present[o.Obj] = true
		if _, known := f.told[o.Obj]; !known || pc.v.world.Since(o.Obj, since) {
			values.ObjectSet = append(values.ObjectSet, types.ObjectSpec{Obj: o.Obj})
		}
	}
	var updates []types.ObjectUpdate
	for ref := range f.told {
		if !present[ref] {
			delete(f.told, ref)
			updates = append(updates, types.ObjectUpdate{Kind: types.ObjectUpdateKindLeave, Obj: ref})
		}
	}
	if len(values.ObjectSet) == 0 {
		return updates, nil
	}
	read, fault := pc.contents(ctx, values)
	if fault != nil {
		return nil, fault
	}
	for _, o := range read {
		if update, changed := f.tell(o); changed {
			updates = append(updates, update)
		}
	}
	return updates, nil
}

// selection is what the filter selects, without a property.
func (f *filter) selection() types.PropertyFilterSpec {
	selection := types.PropertyFilterSpec{ObjectSet: f.spec.ObjectSet}
	for _, p := range f.spec.PropSet {
		selection.PropSet = append(selection.PropSet, types.PropertySpec{Type: p.Type})
	}
	return selection
}

// tell is what the client is told of an object; changed: it is not what it was told before.
func (f *filter) tell(o types.ObjectContent) (update types.ObjectUpdate, changed bool) {
	before, known := f.told[o.Obj]
	now := make(told, len(o.PropSet))
	for _, p := range o.PropSet {
		now[p.Name] = p.Val
	}
	f.told[o.Obj] = now
	update = types.ObjectUpdate{Kind: types.ObjectUpdateKindEnter, Obj: o.Obj, MissingSet: o.MissingSet}
	if known {
		update.Kind = types.ObjectUpdateKindModify
	}
	for _, p := range o.PropSet {
		if old, ok := before[p.Name]; !ok || !reflect.DeepEqual(old, p.Val) {
			update.ChangeSet = append(update.ChangeSet, assign(p.Name, p.Val))
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			update.ChangeSet = append(update.ChangeSet, assign(name, nil)) // unset
		}
	}
	return update, !known || len(update.ChangeSet) > 0
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
