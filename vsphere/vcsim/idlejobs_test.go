package vcsim_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/pbm"
	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// kinds returns the constants of the type Kind in the packages that have tasks.
func kinds(t *testing.T) (all []vcsim.Kind) {
	t.Helper()
	for _, dir := range []string{"managed", "fcd"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		ok(t, err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			ok(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, is := n.(*ast.ValueSpec); is && len(spec.Values) == 1 && isKind(spec.Type) {
					value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
					ok(t, err)
					all = append(all, vcsim.Kind(value))
				}
				return true
			})
		}
	}
	return all
}

// isKind reports whether a type is written Kind or course.Kind.
func isKind(named ast.Expr) bool {
	if of, is := named.(*ast.SelectorExpr); is {
		named = of.Sel
	}
	name, is := named.(*ast.Ident)
	return is && name.Name == "Kind"
}

// job starts a task on a VM of its own; the task is nil if vCenter shows none.
type job func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error)

// subfolder creates a folder as Admin.
func (j *jobs) subfolder(c *govmomi.Client, name string) *object.Folder {
	ref, err := j.v.MakeFolder("/DC0/vm/" + name + "-folder")
	if err != nil {
		j.t.Error(err) // no outage affects this
	}
	return object.NewFolder(c.Client, ref)
}

// running is a job on a VM that is on and whose tools run.
func running(do func(j *jobs, vm *object.VirtualMachine) (*object.Task, error)) job {
	return func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		if err := errors.Join(j.v.PowerOn(name), j.v.SetTools(name, true)); err != nil {
			return nil, err
		}
		return do(j, vm)
	}
}

// onDisk is a job on a first-class disk of its own.
func onDisk(do func(j *jobs, c *govmomi.Client, manager types.ManagedObjectReference, id types.ID) (types.ManagedObjectReference, error)) job {
	return func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
		creates, err := every[vcsim.CreateDisk](j, c, name, vm)
		if err != nil {
			return nil, err
		}
		info, err := creates.WaitForResult(j.ctx)
		if err != nil {
			return nil, err
		}
		task, err := do(j, c, *c.ServiceContent.VStorageObjectManager, info.Result.(types.VStorageObject).Config.Id)
		return object.NewTask(c.Client, task), err
	}
}

// every has a job for each kind of task.
var every map[vcsim.Kind]job

func init() {
	every = map[vcsim.Kind]job{
		vcsim.Clone: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
			return vm.Clone(j.ctx, object.NewFolder(c.Client, j.folder), name+"-clone", types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &j.pool}})
		},
		vcsim.PowerOn: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
			return vm.PowerOn(j.ctx)
		},
		"Datacenter.ExecuteVmPowerOnLRO": func(j *jobs, c *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
			reply, err := methods.PowerOnMultiVM_Task(j.ctx, c.Client, &types.PowerOnMultiVM_Task{This: j.datacenter, Vm: []types.ManagedObjectReference{vm.Reference()}})
			if err != nil {
				return nil, err
			}
			return object.NewTask(c.Client, reply.Returnval), nil
		},
		vcsim.PowerOnByDRS: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
			asks, err := every["Datacenter.ExecuteVmPowerOnLRO"](j, c, name, vm)
			if err != nil {
				return nil, err
			}
			info, err := asks.WaitForResult(j.ctx)
			if err != nil {
				return nil, err
			}
			return object.NewTask(c.Client, *info.Result.(types.ClusterPowerOnVmResult).Attempted[0].Task), nil
		},
		vcsim.PowerOff:      running(func(j *jobs, vm *object.VirtualMachine) (*object.Task, error) { return vm.PowerOff(j.ctx) }),
		vcsim.Suspend:       running(func(j *jobs, vm *object.VirtualMachine) (*object.Task, error) { return vm.Suspend(j.ctx) }),
		vcsim.Reset:         running(func(j *jobs, vm *object.VirtualMachine) (*object.Task, error) { return vm.Reset(j.ctx) }),
		vcsim.ShutdownGuest: running(func(j *jobs, vm *object.VirtualMachine) (*object.Task, error) { return nil, vm.ShutdownGuest(j.ctx) }),
		vcsim.RebootGuest:   running(func(j *jobs, vm *object.VirtualMachine) (*object.Task, error) { return nil, vm.RebootGuest(j.ctx) }),
		vcsim.Reconfigure: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
			return vm.Reconfigure(j.ctx, types.VirtualMachineConfigSpec{NumCPUs: 2})
		},
		vcsim.Rename: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
			return vm.Rename(j.ctx, name+"-renamed")
		},
		vcsim.Destroy: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
			return vm.Destroy(j.ctx)
		},
		vcsim.Relocate: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
			into := j.subfolder(c, name).Reference()
			return vm.Relocate(j.ctx, types.VirtualMachineRelocateSpec{Folder: &into}, types.VirtualMachineMovePriorityDefaultPriority)
		},
		vcsim.PromoteDisks: func(j *jobs, c *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
			reply, err := methods.PromoteDisks_Task(j.ctx, c.Client, &types.PromoteDisks_Task{This: vm.Reference(), Unlink: true})
			if err != nil {
				return nil, err
			}
			return object.NewTask(c.Client, reply.Returnval), nil
		},
		vcsim.CreateVM: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
			return object.NewFolder(c.Client, j.folder).CreateVM(j.ctx, types.VirtualMachineConfigSpec{
				Name: name + "-made", GuestId: "otherLinux64Guest", Files: &types.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"},
			}, object.NewResourcePool(c.Client, j.pool), nil)
		},
		vcsim.RegisterVM: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
			if err := vm.Unregister(j.ctx); err != nil {
				return nil, err
			}
			return object.NewFolder(c.Client, j.folder).RegisterVM(j.ctx, fmt.Sprintf("[LocalDS_0] %s/%s.vmx", name, name), name, false, object.NewResourcePool(c.Client, j.pool), nil)
		},
		vcsim.MoveInto: func(j *jobs, c *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
			return j.subfolder(c, name).MoveInto(j.ctx, []types.ManagedObjectReference{vm.Reference()})
		},
		vcsim.RenameFolder: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
			return j.subfolder(c, name).Rename(j.ctx, name+"-renamed")
		},
		vcsim.DestroyFolder: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
			return j.subfolder(c, name).Destroy(j.ctx)
		},
		vcsim.UnregisterAndDestroy: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
			reply, err := methods.UnregisterAndDestroy_Task(j.ctx, c.Client, &types.UnregisterAndDestroy_Task{This: j.subfolder(c, name).Reference()})
			if err != nil {
				return nil, err
			}
			return object.NewTask(c.Client, reply.Returnval), nil
		},
		vcsim.CreateSnapshot: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
			return vm.CreateSnapshot(j.ctx, "base", "", false, false)
		},
		vcsim.RemoveSnapshots: func(j *jobs, _ *govmomi.Client, name string, vm *object.VirtualMachine) (*object.Task, error) {
			if _, err := j.v.AddSnapshot(name, "base"); err != nil {
				return nil, err
			}
			return vm.RemoveAllSnapshot(j.ctx, nil)
		},
		vcsim.Customize: func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
			return vm.Customize(j.ctx, types.CustomizationSpec{
				Identity:      &types.CustomizationLinuxPrep{HostName: new(types.CustomizationVirtualMachineName)},
				NicSettingMap: []types.CustomizationAdapterMapping{{Adapter: types.CustomizationIPSettings{Ip: new(types.CustomizationDhcpIpGenerator)}}},
			})
		},
		vcsim.ReconfigureCluster: func(j *jobs, c *govmomi.Client, _ string, _ *object.VirtualMachine) (*object.Task, error) {
			return object.NewClusterComputeResource(c.Client, j.cluster).Reconfigure(j.ctx, new(types.ClusterConfigSpecEx), true)
		},
		vcsim.CreateDisk: func(j *jobs, c *govmomi.Client, name string, _ *object.VirtualMachine) (*object.Task, error) {
			reply, err := methods.CreateDisk_Task(j.ctx, c.Client, &types.CreateDisk_Task{This: *c.ServiceContent.VStorageObjectManager, Spec: types.VslmCreateSpec{
				Name: name, CapacityInMB: 1024,
				BackingSpec: &types.VslmCreateSpecDiskFileBackingSpec{VslmCreateSpecBackingSpec: types.VslmCreateSpecBackingSpec{Datastore: j.datastore}},
			}})
			if err != nil {
				return nil, err
			}
			return object.NewTask(c.Client, reply.Returnval), nil
		},
		vcsim.ExtendDisk: onDisk(func(j *jobs, c *govmomi.Client, manager types.ManagedObjectReference, id types.ID) (ref types.ManagedObjectReference, err error) {
			reply, err := methods.ExtendDisk_Task(j.ctx, c.Client, &types.ExtendDisk_Task{This: manager, Id: id, Datastore: j.datastore, NewCapacityInMB: 2048})
			if err == nil {
				ref = reply.Returnval
			}
			return ref, err
		}),
		vcsim.DeleteDisk: onDisk(func(j *jobs, c *govmomi.Client, manager types.ManagedObjectReference, id types.ID) (ref types.ManagedObjectReference, err error) {
			reply, err := methods.DeleteVStorageObject_Task(j.ctx, c.Client, &types.DeleteVStorageObject_Task{This: manager, Id: id, Datastore: j.datastore})
			if err == nil {
				ref = reply.Returnval
			}
			return ref, err
		}),
		vcsim.UpdateDiskMetadata: onDisk(func(j *jobs, c *govmomi.Client, manager types.ManagedObjectReference, id types.ID) (ref types.ManagedObjectReference, err error) {
			reply, err := methods.VCenterUpdateVStorageObjectMetadataEx_Task(j.ctx, c.Client, &types.VCenterUpdateVStorageObjectMetadataEx_Task{
				This: manager, Id: id, Datastore: j.datastore, Metadata: []types.KeyValue{{Key: "k", Value: "v"}}})
			if err == nil {
				ref = reply.Returnval
			}
			return ref, err
		}),
		// The kinds of event chains have no task.
		"VirtualMachine.unregister": func(j *jobs, _ *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
			return nil, vm.Unregister(j.ctx)
		},
		"HostSystem.destroy": func(j *jobs, _ *govmomi.Client, _ string, _ *object.VirtualMachine) (*object.Task, error) {
			err := j.v.RemoveHost("/DC0/host/DC0_C0/DC0_C0_H0")
			time.Sleep(15 * time.Second)
			return nil, errors.Join(err, j.v.AddHost("DC0_C0_H0"))
		},
	}
}

// calls are jobs without tasks: calls of the other services.
var calls = map[vcsim.Kind]job{
	"tags": func(j *jobs, c *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
		r := rest.NewClient(c.Client)
		r.Client.Client.Transport = c.Client.Client.Client.Transport
		if err := r.Login(j.ctx, j.v.URL().User); err != nil {
			return nil, err
		}
		m := tags.NewManager(r)
		id, err := j.v.AddTag("env", vm.Reference().Value+time.Now().String())
		if err == nil {
			err = m.AttachTag(j.ctx, id, vm)
		}
		if err == nil {
			_, err = m.GetAttachedTags(j.ctx, vm)
		}
		return nil, errors.Join(err, r.Logout(j.ctx))
	},
	"policies": func(j *jobs, c *govmomi.Client, _ string, vm *object.VirtualMachine) (*object.Task, error) {
		at := j.v.URL()
		at.Path = pbm.Path
		s := soap.NewClient(at, true) // pbm.NewClient would dial by itself
		s.Client.Transport, s.Namespace, s.Cookie = c.Client.Client.Client.Transport, "urn:"+pbm.Namespace, c.SessionCookie
		content, err := pbmmethods.PbmRetrieveServiceContent(j.ctx, s, &pbmtypes.PbmRetrieveServiceContent{This: pbm.ServiceInstance})
		if err != nil {
			return nil, err
		}
		p := &pbm.Client{Client: s, ServiceContent: content.Returnval, RoundTripper: s}
		_, err = p.QueryAssociatedProfile(j.ctx, pbmtypes.PbmServerObjectRef{ObjectType: "virtualMachine", Key: vm.Reference().Value})
		return nil, err
	},
}
