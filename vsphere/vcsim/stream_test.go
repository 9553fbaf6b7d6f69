package vcsim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// tree selects all VMs by traversing folders from the root.
func tree(root types.ManagedObjectReference, paths ...string) types.PropertyFilterSpec {
	into := func(kind, path string) types.BaseSelectionSpec {
		return &types.TraversalSpec{
			SelectionSpec: types.SelectionSpec{Name: kind}, Type: kind, Path: path,
			SelectSet: []types.BaseSelectionSpec{&types.SelectionSpec{Name: "Folder"}, &types.SelectionSpec{Name: "Datacenter"}},
		}
	}
	return types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: root, SelectSet: []types.BaseSelectionSpec{into("Folder", "childEntity"), into("Datacenter", "vmFolder")}}},
		PropSet:   []types.PropertySpec{{Type: "VirtualMachine", PathSet: paths}},
	}
}

// watcher makes the calls of a stream one by one.
type watcher struct {
	c       *client
	pc      *property.Collector
	version string
}

func (c *client) watch(t testing.TB, spec types.PropertyFilterSpec) *watcher {
	t.Helper()
	pc, err := property.DefaultCollector(c.Client.Client).Create(c.ctx)
	ok(t, err)
	_, err = pc.CreateFilter(c.ctx, types.CreateFilter{Spec: spec})
	ok(t, err)
	return &watcher{c: c, pc: pc}
}

func (w *watcher) ask(version string, seconds int32) (*types.UpdateSet, error) {
	res, err := methods.WaitForUpdatesEx(w.c.ctx, w.c.Client.Client, &types.WaitForUpdatesEx{
		This: w.pc.Reference(), Version: version, Options: &types.WaitOptions{MaxWaitSeconds: &seconds},
	})
	if err != nil {
		return nil, err
	}
	return res.Returnval, nil
}

// next returns the next updates in the form "enter vm-12" and "modify vm-12 name=x".
func (w *watcher) next(t testing.TB, seconds int32) []string {
	t.Helper()
	set, err := w.ask(w.version, seconds)
	ok(t, err)
	if set == nil {
		return nil
	}
	w.version = set.Version
	return spell(set)
}

func spell(set *types.UpdateSet) (words []string) {
	for _, f := range set.FilterSet {
		for _, o := range f.ObjectSet {
			line := []string{string(o.Kind), o.Obj.Value}
			if o.Kind == types.ObjectUpdateKindModify {
				for _, c := range o.ChangeSet {
					line = append(line, fmt.Sprintf("%s=%v", c.Name, c.Val))
				}
				slices.Sort(line[2:])
			}
			words = append(words, strings.Join(line, " "))
		}
	}
	slices.Sort(words)
	return words
}

func TestStreamReportsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		makeFolder(t, v, "/DC0/vm/a/b")
		vm := addVM(t, v, "/DC0/vm/a/b", "vm")
		c := login(t, v)
		named := c.watch(t, types.PropertyFilterSpec{ObjectSet: []types.ObjectSpec{{Obj: vm}}, PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"name"}}}})
		named.next(t, 5)
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "name", "config.hardware.numCPU", "runtime.powerState", `config.extraConfig["k"].value`))

		want := func(what string, wants ...string) {
			t.Helper()
			slices.Sort(wants)
			if got := w.next(t, 5); !slices.Equal(got, wants) {
				t.Errorf("%s: got %v, want %v", what, got, wants)
			}
		}
		want("at first", "enter "+vm.Value, "enter "+c.template.Reference().Value)
		if got := w.next(t, 0); got != nil {
			t.Errorf("got %v without a change", got)
		}
		ok(t, v.PowerOn("vm"))
		want("power", "modify "+vm.Value+" runtime.powerState=poweredOn")
		ok(t, v.Rename("vm", "renamed"))
		want("name", "modify "+vm.Value+" name=renamed")
		ok(t, v.SetExtraConfig("renamed", "k", "1"))
		want("a key", "modify "+vm.Value+` config.extraConfig["k"].value=1`)
		ok(t, v.PowerOff("renamed"))
		ok(t, v.Reconfigure("renamed", types.VirtualMachineConfigSpec{NumCPUs: 2}))
		for len(w.next(t, 0)) > 0 { // one update or two
		}
		v.Hide(vm)
		want("hidden", "leave "+vm.Value)
		ok(t, v.Rename("renamed", "unseen"))
		v.Show(vm)
		want("shown", "enter "+vm.Value)
		ok(t, v.Move("unseen", "/DC0/vm"))
		ok(t, v.Destroy("unseen"))
		want("destroyed", "leave "+vm.Value)
		var last []string
		for got := named.next(t, 0); len(got) > 0; got = named.next(t, 0) {
			last = got
		}
		if !slices.Equal(last, []string{"leave " + vm.Value}) {
			t.Errorf("of the VM that it names, a stream shows %v last; want %v", last, []string{"leave " + vm.Value})
		}
	})
}

func TestLostUpdateIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		vm := addVM(t, v, "/DC0/vm", "vm")
		c := login(t, v)
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "runtime.powerState"))
		w.next(t, 1)
		ok(t, v.PowerOn("vm"))
		v.LoseReply("WaitForUpdatesEx", 1)
		if set, err := w.ask(w.version, 5); err == nil {
			t.Fatalf("got a reply: %v", set)
		}
		if got := w.next(t, 5); !slices.Equal(got, []string{"modify " + vm.Value + " runtime.powerState=poweredOn"}) {
			t.Errorf("got %v; want %v", got, []string{"modify " + vm.Value + " runtime.powerState=poweredOn"})
		}
		_, err := w.ask("777", 0)
		wantFault[*types.InvalidCollectorVersion](t, err)
		w.version = ""
		if got := w.next(t, 0); len(got) != 2 {
			t.Errorf("from the start: got %v; want 2 of them", got)
		}
	})
}

func TestWaitEndsWhenItsClientDisconnects(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "name"))
		w.next(t, 1)
		all, abandon := c.ctx, context.CancelFunc(nil)
		c.ctx, abandon = context.WithCancel(all)
		before := v.Calls()["WaitForUpdatesEx"]
		gone := make(chan error, 1)
		go func() {
			_, err := w.ask(w.version, 3600)
			gone <- err
		}()
		eventually(t, "the wait begins", func() bool { return v.Calls()["WaitForUpdatesEx"] > before })
		abandon()
		if <-gone == nil {
			t.Error("the wait ended without an error")
		}
		c.ctx = all
		// A collector serves one wait at a time, so an answer means that the first one has ended.
		within(t, 5*time.Second, "the next wait", func() { w.next(t, 0) })
	})
}

// A stream selects again only after changes that can change its selection. The stream must always show the same as a read.
func TestAStreamShowsWhatAReadShows(t *testing.T) {
	thin.NotShort(t)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inABubble(t, vcsim.Config{Hosts: 2}, func(t *testing.T, v *vcsim.VCenter, c *client) {
				random := rand.New(rand.NewPCG(seed, 0))
				for _, f := range []string{"a", "b", "a/c"} {
					makeFolder(t, v, "/DC0/vm/"+f)
				}
				inAView, err := view.NewManager(c.Client.Client).CreateContainerView(c.ctx, c.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
				ok(t, err)
				spec := tree(c.ServiceContent.RootFolder, "name", "parent", "runtime.powerState", "config.changeVersion")
				ofView := types.PropertyFilterSpec{PropSet: spec.PropSet, ObjectSet: []types.ObjectSpec{{Obj: inAView.Reference(), Skip: types.NewBool(true),
					SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "ContainerView", Path: "view"}}}}}
				streams := []*shown{{spec: spec, w: c.watch(t, spec)}, {spec: ofView, w: c.watch(t, ofView)}}
				hidden := map[types.ManagedObjectReference]bool{}
				for n := range 150 {
					folder := "/DC0/vm" + []string{"", "/a", "/b", "/a/c"}[random.IntN(4)]
					vm := vcsim.VM{Path: "/DC0/vm/none", Ref: c.folder.Reference()}
					if vms := v.VMs(); len(vms) > 0 {
						vm = vms[random.IntN(len(vms))]
					}
					switch random.IntN(9) { // an error is ignored: a refused call changes nothing
					case 0, 1:
						_, _ = v.AddVM(folder, fmt.Sprint("vm-", n))
					case 2:
						_ = v.PowerOn(vm.Path)
					case 3:
						_ = v.Move(vm.Path, folder)
					case 4:
						_ = v.Rename(vm.Path, fmt.Sprint("again-", n))
					case 5:
						_ = v.Destroy(vm.Path)
					case 6:
						ref, err := v.Find(folder)
						if ok(t, err); random.IntN(2) == 0 && folder != "/DC0/vm" {
							vm.Ref = ref
						}
						if hidden[vm.Ref] = !hidden[vm.Ref]; hidden[vm.Ref] {
							v.Hide(vm.Ref)
						} else {
							v.Show(vm.Ref)
						}
					case 7:
						if gone := v.RemovedHosts(); len(gone) > 0 {
							ok(t, v.AddHost(gone[0]))
						} else {
							ok(t, v.RemoveHost("/DC0/host/DC0_C0/DC0_C0_H1"))
						}
					case 8:
						_ = v.SetExtraConfig(vm.Path, "k", fmt.Sprint(n))
					}
					for _, s := range streams {
						s.compare(t, c, n)
					}
				}
			})
		})
	}
}

// shown has the objects and properties that a stream has reported.
type shown struct {
	spec types.PropertyFilterSpec
	w    *watcher
	has  map[types.ManagedObjectReference]map[string]any
}

// compare compares the reported objects with a read.
func (s *shown) compare(t *testing.T, c *client, n int) {
	t.Helper()
	if s.has == nil {
		s.has = map[types.ManagedObjectReference]map[string]any{}
	}
	for {
		set, err := s.w.ask(s.w.version, 0)
		if ok(t, err); set == nil {
			break
		}
		s.w.version = set.Version
		s.take(set)
	}
	read, err := property.DefaultCollector(c.Client.Client).RetrieveProperties(c.ctx, types.RetrieveProperties{SpecSet: []types.PropertyFilterSpec{s.spec}})
	ok(t, err)
	all := map[types.ManagedObjectReference]map[string]any{}
	for _, o := range read.Returnval {
		all[o.Obj] = map[string]any{}
		for _, p := range o.PropSet {
			all[o.Obj][p.Name] = p.Val
		}
	}
	if !reflect.DeepEqual(s.has, all) {
		t.Fatalf("after %d changes the stream of %s shows %v, and a read %v", n+1, s.spec.ObjectSet[0].Obj, s.has, all)
	}
}

func (s *shown) take(set *types.UpdateSet) {
	for _, f := range set.FilterSet {
		for _, o := range f.ObjectSet {
			if o.Kind == types.ObjectUpdateKindLeave {
				delete(s.has, o.Obj)
				continue
			}
			if o.Kind == types.ObjectUpdateKindEnter {
				s.has[o.Obj] = map[string]any{}
			}
			for _, p := range o.ChangeSet {
				if s.has[o.Obj][p.Name] = p.Val; p.Val == nil {
					delete(s.has[o.Obj], p.Name)
				}
			}
		}
	}
}

func TestReadsComeInPages(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		addVM(t, v, "/DC0/vm", "source")
		ok(t, v.PowerOn("source"))
		var names []string
		for i := range 250 {
			names = append(names, fmt.Sprint("copy-", i))
		}
		ok(t, v.AddCopies("source", "/DC0/vm", names, func(int, *mo.VirtualMachine) {}))
		read := func(most int32) (sizes []int) {
			page, err := methods.RetrievePropertiesEx(c.ctx, c.Client.Client, &types.RetrievePropertiesEx{This: c.ServiceContent.PropertyCollector,
				SpecSet: []types.PropertyFilterSpec{tree(c.ServiceContent.RootFolder, "name")}, Options: types.RetrieveOptions{MaxObjects: most}})
			ok(t, err)
			result, got := *page.Returnval, map[string]bool{}
			for {
				sizes = append(sizes, len(result.Objects))
				for _, o := range result.Objects {
					got[o.PropSet[0].Val.(string)] = true
				}
				if result.Token == "" {
					break
				}
				token := result.Token
				next, err := methods.ContinueRetrievePropertiesEx(c.ctx, c.Client.Client, &types.ContinueRetrievePropertiesEx{This: c.ServiceContent.PropertyCollector, Token: token})
				ok(t, err)
				result = next.Returnval
				_, err = methods.ContinueRetrievePropertiesEx(c.ctx, c.Client.Client, &types.ContinueRetrievePropertiesEx{This: c.ServiceContent.PropertyCollector, Token: token})
				wantFault[*types.InvalidPropertyFault](t, err)
			}
			if len(got) != 252 {
				t.Errorf("%d names of 252 VMs; want 252", len(got))
			}
			return sizes
		}
		for most, want := range map[int32][]int{0: {100, 100, 52}, 1000: {100, 100, 52}, 90: {90, 90, 72}} {
			if got := read(most); !slices.Equal(got, want) {
				t.Errorf("at most %d: pages of %v, want %v", most, got, want)
			}
		}
	})
}
