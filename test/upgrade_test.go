package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// recording is the state that an older server left behind: its stamps in vCenter, and its answers in Kubernetes.
type recording struct {
	How      string    // how it was recorded
	At       time.Time // when
	VCenter  string    // the vCenter's about.instanceUuid
	Template struct {
		InstanceUUID, Fingerprint string
		Disks                     []struct {
			Key             int32
			CapacityInBytes int64
			UUID, ContentID string
		}
	}
	Folders map[string]string // moRefs by path
	Rules   []struct {
		Cluster, Name string
		VMs           []string
	}
	VMs    []recordedVM
	Groups []struct {
		Group    v1alpha1.VmGroup
		Status   v1alpha1.VmGroupStatus
		Children map[string]map[string]json.RawMessage
		Related  []metacontroller.Related
	}
}

type recordedVM struct {
	MoRef, Folder, Name, InstanceUUID, Host, IP, Stamp string
	CPUs, MemoryMB                                     int32
	On                                                 bool
	Tags                                               []string
	Attributes                                         map[string]string
}

func readRecording(t *testing.T, text []byte) (r recording) {
	t.Helper()
	must.Succeed(t, json.Unmarshal(text, &r))
	return r
}

// reads are the calls that change nothing in vCenter.
var reads = []string{"RetrieveServiceContent", "Login", "CurrentTime", "RetrieveProperties", "RetrievePropertiesEx", "ContinueRetrievePropertiesEx",
	"CreatePropertyCollector", "DestroyPropertyCollector", "CreateFilter", "DestroyPropertyFilter", "WaitForUpdatesEx", "CancelWaitForUpdates",
	"CreateListView", "ModifyListView", "DestroyView", "FindByInventoryPath", "FindChild", "QueryEvents",
	"CreateCollectorForEvents", "ReadNextEvents", "DestroyCollector"}

// sinceAdded matches the differences between a status of commit e44e18e and one of today that are intended. Today's messages have other words, because
// they are for people. Today's EndpointSlices also record when a drain began. Today's status also has these fields:
//   - the conditions Reconciling and Stalled, and MembersDiffer as False, which e44e18e left out; Progressing as False is left out today;
//   - instanceUUID and vmPathName of members and of VMs in quarantine;
//   - canary.target, what the canary members are;
//   - trial, which says that members were ready;
//   - summary, of the message;
//   - names, what the names in the spec mean.
var sinceAdded = regexp.MustCompile(`^/conditions/(Reconciling|Stalled|MembersDiffer)/\w+: ->|^/conditions/Progressing/\w+: .* -> $` +
	`|^/members/\d+/bootTime: ->|^/(members|standby|quarantined)/\d+/(instanceUUID|vmPathName): ->|^/canary/target: ->|^/trial/(ready|target): ->|^/(conditions/\w+|members/\d+)/message:|^/lastMessage:|^/summary: ->|^/names/\d+/(field|name|object): ->`)

func TestAnUpgradeChangesNothing(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/e44e18e.json")
	must.Succeed(t, err)
	synctest.Test(t, func(t *testing.T) {
		was := readRecording(t, text)
		time.Sleep(time.Until(was.At))
		r := newRig(t, vcsim.Config{InstanceUUID: was.VCenter, Clusters: 2, Hosts: 2, Portgroups: 1, Guest: vcsim.Guest{Tools: true}})
		was = r.rebuild(was, string(text))
		stamps := r.stamps()
		before := r.Calls()
		s := r.serve(func(v *vsphere.Config, l *loop.Config) {
			v.AdoptFrom = []inventory.AdoptRule{{Namespace: "default", Folder: legacy}}
			v.Pool, v.ClusterID = "DC0_C0", "prod"
		})
		time.Sleep(time.Minute) // until the server is ready, because in a cluster no hook call reaches it earlier
		var groups []*metacontroller.Group
		for i := range was.Groups {
			of := &was.Groups[i]
			g := s.group(of.Group.Name, 0)
			g.VmGroup, g.Children, g.Related = of.Group, of.Children, of.Related
			g.Status = of.Status
			groups = append(groups, g)
		}
		for range 3 {
			for i, g := range groups {
				_, err := g.Sync(within(t))
				r.must(err)
				for _, change := range differences(t, was.Groups[i].Status, g.Status) {
					if !sinceAdded.MatchString(change) {
						t.Errorf("%s: the status changes: %s", g.Name, change)
					}
				}
			}
			time.Sleep(10 * time.Second)
		}
		for i, g := range groups {
			if g.Writes != 1 {
				t.Errorf("%s: %d status writes, want one", g.Name, g.Writes)
			}
			for _, change := range differences(t, was.Groups[i].Children, g.Children) {
				if !strings.Contains(change, "/terminating-since: ->") {
					t.Errorf("%s: the children change: %s; want %q in the text", g.Name, change, "/terminating-since: ->")
				}
			}
		}
		for method, n := range r.Calls() {
			if n -= before[method]; n > 0 && !slices.Contains(reads, method) {
				t.Errorf("%d calls of %s", n, method)
			}
		}
		for _, change := range differences(t, stamps, r.stamps()) {
			t.Errorf("VMs and stamps change: %s", change)
		}
	})
}

// stamps returns the texts of all stamps, by the VM's name and moRef.
func (r *rig) stamps() map[string]string {
	all := map[string]string{}
	for _, vm := range r.VMs() {
		all[vm.Name+" "+vm.Ref.Value] = vm.ExtraConfig[stamp.Key]
	}
	return all
}

// rebuild creates the recorded VMs again, and returns the recording with the moRefs and the fingerprint of the new VMs.
func (r *rig) rebuild(was recording, text string) recording {
	r.t.Helper()
	ctx := context.Background()
	now := map[string]string{}
	for folder, ref := range was.Folders {
		made, err := r.MakeFolder(folder)
		r.must(err)
		now[ref] = made.Value
	}
	template := r.vm("/DC0/vm/vm-operator-template")
	now[was.Template.Fingerprint] = r.fingerprint(template)
	refs := map[string]types.ManagedObjectReference{}
	for _, vm := range was.VMs {
		host, err := r.find.HostSystem(ctx, vm.Host)
		r.must(err)
		pool, err := host.ResourcePool(ctx)
		r.must(err)
		folder, err := r.find.Folder(ctx, vm.Folder)
		r.must(err)
		hostRef, poolRef := host.Reference(), pool.Reference()
		r.task(template.Clone(ctx, folder, vm.Name, types.VirtualMachineCloneSpec{
			Location: types.VirtualMachineRelocateSpec{Host: &hostRef, Pool: &poolRef},
			Config:   &types.VirtualMachineConfigSpec{InstanceUuid: vm.InstanceUUID, NumCPUs: vm.CPUs, MemoryMB: int64(vm.MemoryMB)},
		}))
		refs[vm.Name] = r.vm(path.Join(vm.Folder, vm.Name)).Reference()
		now[vm.MoRef] = refs[vm.Name].Value
	}
	text = regexp.MustCompile(`\b(vm-\d+|group-\d+|`+was.Template.Fingerprint+`)\b`).ReplaceAllStringFunc(text, func(id string) string {
		if is := now[id]; is != "" {
			return is
		}
		return id // the moRef of a VM that was removed before the recording
	})
	text = regexp.MustCompile(`,\\?"fd00::1\d\\?"\]`).ReplaceAllString(text, "]") // the guests of this test report only one address
	is := readRecording(r.t.(*testing.T), []byte(text))
	for i, vm := range is.VMs {
		r.restoreRecorded(vm, object.NewVirtualMachine(r.admin.Client, refs[was.VMs[i].Name]))
	}
	for _, rule := range is.Rules {
		for i, name := range rule.VMs {
			vm := is.VMs[slices.IndexFunc(is.VMs, func(vm recordedVM) bool { return vm.Name == name })]
			rule.VMs[i] = path.Join(vm.Folder, name)
		}
		r.must(r.AddRule(rule.Cluster, rule.Name, rule.VMs...))
	}
	time.Sleep(2 * bootTime)
	for _, vm := range is.VMs {
		if vm.On {
			r.must(r.SetIP(path.Join(vm.Folder, vm.Name), vm.IP))
		}
	}
	return is
}

// restoreRecorded gives a VM the recorded stamp, tags and attributes, and powers it on.
func (r *rig) restoreRecorded(was recordedVM, vm *object.VirtualMachine) {
	r.t.Helper()
	ctx := context.Background()
	where := path.Join(was.Folder, was.Name)
	r.task(vm.Rename(ctx, was.Name)) // a VM in quarantine has its moRef in its name, and the new VM has another moRef
	r.must(r.SetExtraConfig(where, stamp.Key, was.Stamp))
	if len(was.Tags) > 0 {
		wire := soap.NewClient(r.URL(), true)
		wire.Client.Transport = r.transport
		client := &rest.Client{Client: wire}
		r.must(client.Login(ctx, r.URL().User))
		for _, tag := range was.Tags {
			category, name, _ := strings.Cut(tag, "/")
			_, _ = r.AddTag(category, name) // fails if the tag exists
			r.must(tags.NewManager(client).AttachTag(ctx, name, vm.Reference()))
		}
		r.must(client.Logout(ctx))
	}
	fields, err := object.GetCustomFieldsManager(r.admin.Client)
	r.must(err)
	for name, value := range was.Attributes {
		key, err := fields.FindKey(ctx, name)
		if err != nil {
			key, err = r.AddAttribute(name)
		}
		r.must(err)
		r.must(fields.Set(ctx, vm.Reference(), key, value))
	}
	if was.On {
		r.must(r.PowerOn(where))
	}
}

// fingerprint returns the fingerprint of a template.
func (r *rig) fingerprint(template *object.VirtualMachine) string {
	r.t.Helper()
	var vm mo.VirtualMachine
	r.must(template.Properties(context.Background(), template.Reference(), []string{"config.instanceUuid", "config.hardware.device"}, &vm))
	return disks.Fingerprint(vm.Config.InstanceUuid, vm.Config.Hardware.Device)
}

// differences lists the paths at which two values, as JSON, differ.
func differences(t *testing.T, was, is any) (all []string) {
	t.Helper()
	a, b := map[string]string{}, map[string]string{}
	flatten(t, was, a)
	flatten(t, is, b)
	for at, value := range a {
		if b[at] != value {
			all = append(all, fmt.Sprintf("%s: %s -> %s", at, value, b[at]))
		}
	}
	for at, value := range b {
		if _, had := a[at]; !had {
			all = append(all, fmt.Sprintf("%s: -> %s", at, value))
		}
	}
	slices.Sort(all)
	return all
}

// flatten puts the scalars of a value into a map, by their paths.
func flatten(t *testing.T, value any, into map[string]string) {
	t.Helper()
	text, err := json.Marshal(value)
	must.Succeed(t, err)
	var tree any
	must.Succeed(t, json.Unmarshal(text, &tree))
	var walk func(at string, x any)
	walk = func(at string, x any) {
		switch x := x.(type) {
		case map[string]any:
			for key, y := range x {
				walk(at+"/"+key, y)
			}
		case []any:
			for i, y := range x {
				key := fmt.Sprint(i)
				if condition, is := y.(map[string]any); is && condition["type"] != nil {
					key = fmt.Sprint(condition["type"])
				}
				walk(at+"/"+key, y)
			}
		case nil:
		default:
			into[at] = fmt.Sprint(x)
		}
	}
	walk("", tree)
}
