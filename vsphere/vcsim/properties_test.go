package vcsim

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// The test compares this package's reads with those of govmomi's simulator, for all objects and properties of a full inventory, and for many
// paths.
func TestReadsReturnTheSameAsTheSimulator(t *testing.T) {
	t.Parallel()
	v := full(t)
	objects := v.objects.AllReference("")
	t.Run("all properties of all objects", func(t *testing.T) {
		for _, obj := range objects {
			same(t, v, types.PropertyFilterSpec{ObjectSet: []types.ObjectSpec{{Obj: obj.Reference()}},
				PropSet: []types.PropertySpec{{Type: obj.Reference().Type, PathSet: pathsOf(propertiesOf(obj).Type(), 1)}}})
		}
	})
	t.Run("by path", func(t *testing.T) {
		paths, of := 0, map[string]int{}
		for _, obj := range objects {
			kind := obj.Reference().Type
			if of[kind]++; of[kind] > 1 && kind != "VirtualMachine" { // one of each type, but all VMs
				continue
			}
			properties := propertiesOf(obj)
			set := pathsOf(properties.Type(), 3)
			paths += len(set)
			same(t, v, types.PropertyFilterSpec{ObjectSet: []types.ObjectSpec{{Obj: obj.Reference()}},
				PropSet: []types.PropertySpec{{Type: obj.Reference().Type, PathSet: set}}})
		}
		if paths < 20*len(of) {
			t.Errorf("only %d paths of %d kinds", paths, len(of))
		}
	})
	vm := v.vmNamed(t, "on").Self
	dc := v.objects.Any("Datacenter").Reference()
	for name, spec := range map[string]types.PropertyFilterSpec{
		"own, embedded and other types": {
			ObjectSet: []types.ObjectSpec{{Obj: vm}, {Obj: dc}, {Obj: v.objects.Any("ClusterComputeResource").Reference()}},
			PropSet: []types.PropertySpec{
				{Type: "ManagedEntity", PathSet: []string{"name", "parent"}},
				{Type: "ComputeResource", PathSet: []string{"host", "name", "summary.numHosts"}},
				{Type: "VirtualMachine", PathSet: []string{"name", "runtime", "name"}},
				{Type: "HostSystem", PathSet: []string{"name"}},
			}},
		"no path":         {ObjectSet: []types.ObjectSpec{{Obj: vm}}, PropSet: []types.PropertySpec{{Type: "VirtualMachine"}}},
		"no property set": {ObjectSet: []types.ObjectSpec{{Obj: vm}}},
		"keys": {ObjectSet: []types.ObjectSpec{{Obj: vm}}, PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{
			`config.extraConfig["guestinfo.a"]`, `config.extraConfig["guestinfo.a"].value`, `config.extraConfig["none"]`,
			`config.hardware.device[2000]`, `config.hardware.device[2000].deviceInfo.label`, `config.hardware.device[2000].backing`,
			`config.hardware.device["2000"]`, `config.extraConfig[3]`, `config.extraConfig["a`, `config.extraConfig["a"]x`,
			`snapshot.rootSnapshotList["a"]`, `guest.net[4000]`, `datastore["a"]`,
		}}}},
		"a missing object": {ObjectSet: []types.ObjectSpec{{Obj: types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-none"}}},
			PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"name"}}}},
		"an object that can be missing": {ObjectSet: []types.ObjectSpec{{Obj: types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-none"}}, {Obj: vm}},
			PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"name"}}}, ReportMissingObjectsInResults: types.NewBool(true)},
		"the whole tree": {PropSet: []types.PropertySpec{{Type: "ManagedEntity", PathSet: []string{"name"}}, {Type: "VirtualMachine", PathSet: pathsOf(reflect.TypeFor[mo.VirtualMachine](), 1)}},
			ObjectSet: []types.ObjectSpec{{Obj: v.objects.Get(v.world.Root()).Reference(), Skip: types.NewBool(true), SelectSet: []types.BaseSelectionSpec{
				traversal("folders", "Folder", "childEntity", "folders", "vms", "hosts", "compute", "networks"),
				traversal("vms", "Datacenter", "vmFolder", "folders"), traversal("hosts", "Datacenter", "hostFolder", "folders"),
				traversal("networks", "Datacenter", "network"), traversal("compute", "ComputeResource", "resourcePool"),
			}}}},
		"a traversal that skips": {PropSet: []types.PropertySpec{{Type: "Folder", PathSet: []string{"name"}}}, ObjectSet: []types.ObjectSpec{{Obj: dc,
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "Datacenter", Path: "vmFolder", Skip: types.NewBool(true)}}}}},
		"an undefined traversal": {ObjectSet: []types.ObjectSpec{{Obj: dc, SelectSet: []types.BaseSelectionSpec{&types.SelectionSpec{Name: "none"}}}}},
	} {
		t.Run(name, func(t *testing.T) { same(t, v, spec) })
	}
}

// The simulator withholds such a property instead.
func TestAReadOfAPropertyThatDoesNotExistFails(t *testing.T) {
	t.Parallel()
	v := full(t)
	vm := v.vmNamed(t, "on").Self
	for _, path := range []string{"", ".", "nothing", "config.nothing", "config.hardware.device.key", "snapshot.nothing", "layout.nothing.at.all", `config.name["a"]`, `config.none["a"]`} {
		body := ours(v, v.world.Context(), []types.PropertyFilterSpec{{ObjectSet: []types.ObjectSpec{{Obj: vm}},
			PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"name", path}}}}})
		if body.Fault_ == nil {
			t.Errorf("%q: %+v, want a fault", path, body.Res.Returnval)
		}
	}
}

func TestReadsReturnCopies(t *testing.T) {
	t.Parallel()
	v := full(t)
	vm := v.vmNamed(t, "on")
	all := types.PropertyFilterSpec{ObjectSet: []types.ObjectSpec{{Obj: vm.Self}}, PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: pathsOf(reflect.TypeFor[mo.VirtualMachine](), 1)}}}
	read := func() []types.DynamicProperty {
		return ours(v, v.world.Context(), []types.PropertyFilterSpec{all}).Res.Returnval.Objects[0].PropSet
	}
	inner := make(map[uintptr]string)
	addresses(reflect.ValueOf(&vm.VirtualMachine), "vm", func(at uintptr, path string) { inner[at] = path })
	if len(inner) < 50 {
		t.Fatalf("the VM has only %d addresses", len(inner))
	}
	for _, p := range read() {
		addresses(reflect.ValueOf(p.Val), p.Name, func(at uintptr, path string) {
			if same, ok := inner[at]; ok {
				t.Errorf("%s shares memory with the registry's %s", path, same)
			}
		})
	}
}

// full returns a vCenter with objects of many types.
func full(t *testing.T) *VCenter {
	t.Helper()
	v, err := Start(Config{Clusters: 2, Hosts: 2, Datastores: 2, Pools: 1, Portgroups: 2, OpaqueNetworks: 1, Pods: 1, Guest: Guest{Tools: true}})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	template := v.objects.Any("VirtualMachine").Reference()
	vm := object.NewVirtualMachine(v.Admin().Client, template)
	pool := v.objects.Any("ResourcePool").Reference()
	parent := *v.objects.Any("VirtualMachine").Entity().Parent
	must := func(task *object.Task, err error) {
		t.Helper()
		if err == nil {
			err = task.Wait(t.Context())
		}
		must.Succeed(t, err)
	}
	config := &types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: "guestinfo.a", Value: "1"}}}
	for _, name := range []string{"off", "on"} {
		must(vm.Clone(t.Context(), object.NewFolder(v.Admin().Client, parent), name, types.VirtualMachineCloneSpec{
			Location: types.VirtualMachineRelocateSpec{Pool: &pool}, Config: config, PowerOn: name == "on"}))
	}
	if _, err := v.AddSnapshot("on", "s"); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *VCenter) vmNamed(t *testing.T, name string) *simulator.VirtualMachine {
	t.Helper()
	for _, vm := range v.objects.All("VirtualMachine") {
		if vm.Entity().Name == name {
			return vm.(*simulator.VirtualMachine)
		}
	}
	t.Fatalf("vCenter has no VM %s", name)
	return nil
}

func traversal(name, kind, path string, next ...string) types.BaseSelectionSpec {
	t := &types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: name}, Type: kind, Path: path}
	for _, n := range next {
		t.SelectSet = append(t.SelectSet, &types.SelectionSpec{Name: n})
	}
	return t
}

// pathsOf returns the property paths of a type down to a depth, without those through arrays.
func pathsOf(t reflect.Type, depth int) (paths []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || depth == 0 || t.PkgPath() == "time" {
		return nil
	}
	for f := range t.Fields() {
		if f.Anonymous {
			paths = append(paths, pathsOf(f.Type, depth)...)
			continue
		}
		name := strings.ToLower(f.Name[:1]) + f.Name[1:]
		if name == "self" {
			continue
		}
		paths = append(paths, name)
		for _, p := range pathsOf(f.Type, depth-1) {
			paths = append(paths, name+"."+p)
		}
	}
	return paths
}

// ours answers a read with this package's collector.
func ours(v *VCenter, ctx *simulator.Context, specs []types.PropertyFilterSpec) *methods.RetrievePropertiesExBody {
	pc := v.streams.Collector(collectorOf(ctx), nil).(interface {
		RetrievePropertiesEx(*simulator.Context, *types.RetrievePropertiesEx) soap.HasFault
	})
	return pc.RetrievePropertiesEx(ctx, &types.RetrievePropertiesEx{SpecSet: specs}).(*methods.RetrievePropertiesExBody)
}

func collectorOf(ctx *simulator.Context) *simulator.PropertyCollector {
	return ctx.Session.Get(types.ManagedObjectReference{Type: "PropertyCollector", Value: "propertyCollector"}).(*simulator.PropertyCollector)
}

// same requires that this package's answer is the simulator's.
func same(t *testing.T, v *VCenter, spec types.PropertyFilterSpec) {
	t.Helper()
	ctx := v.world.Context()
	pc := collectorOf(ctx)
	specs := []types.PropertyFilterSpec{spec}
	want := pc.RetrievePropertiesEx(ctx, &types.RetrievePropertiesEx{This: pc.Self, SpecSet: specs}).(*methods.RetrievePropertiesExBody)
	got := ours(v, ctx, specs)
	if !reflect.DeepEqual(got.Fault_, want.Fault_) {
		t.Fatalf("fault %+v, want %+v", got.Fault_, want.Fault_)
	}
	if want.Fault_ != nil {
		return
	}
	read, theirs := got.Res.Returnval.Objects, want.Res.Returnval.Objects
	if len(read) != len(theirs) {
		t.Fatalf("%d objects, want %d", len(read), len(theirs))
	}
	for i, o := range read {
		w := theirs[i]
		if o.Obj != w.Obj {
			t.Fatalf("object %d is %s, want %s", i, o.Obj, w.Obj)
		}
		if got, want := named(o.PropSet), named(w.PropSet); !slices.Equal(got, want) {
			t.Errorf("%s: properties %q, want %q", o.Obj, got, want)
			continue
		}
		for j, p := range o.PropSet {
			w.PropSet[j].Val = copyOf(reflect.ValueOf(&w.PropSet[j].Val).Elem()).Interface() // times in UTC
			if !reflect.DeepEqual(p, w.PropSet[j]) {
				t.Errorf("%s: %s is %T %+v, want %T %+v", o.Obj, p.Name, p.Val, p.Val, w.PropSet[j].Val, w.PropSet[j].Val)
			}
		}
		if !reflect.DeepEqual(o.MissingSet, w.MissingSet) {
			t.Errorf("%s: missing %+v, want %+v", o.Obj, o.MissingSet, w.MissingSet)
		}
	}
}

func named(set []types.DynamicProperty) (names []string) {
	for _, p := range set {
		names = append(names, p.Name)
	}
	return names
}

// addresses calls report for each memory address that a value refers to.
func addresses(v reflect.Value, path string, report func(at uintptr, path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			report(v.Pointer(), path)
			addresses(v.Elem(), path, report)
		}
	case reflect.Interface:
		addresses(v.Elem(), path, report)
	case reflect.Slice:
		if v.Len() > 0 {
			report(v.Pointer(), path)
		}
		for i := range v.Len() {
			addresses(v.Index(i), path, report)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				addresses(v.Field(i), path+"."+f.Name, report)
			}
		}
	}
}
