package vcsim_test

import (
	"context"
	"errors"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestDirectCallsReturnTheSameAsHTTP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vc, _, web, network := wired(t, byHTTP)
		_, straight := connect(t, vc, network, directly)
		vm, err := vc.Find("/DC0/vm/" + template)
		ok(t, err)
		folder, err := vc.Find("/DC0/vm")
		ok(t, err)
		content := web.ServiceContent
		all := func(ref types.ManagedObjectReference) []types.PropertyFilterSpec {
			return []types.PropertyFilterSpec{{ObjectSet: []types.ObjectSpec{{Obj: ref}}, PropSet: []types.PropertySpec{{Type: ref.Type, All: types.NewBool(true)}}}}
		}
		none := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-none"}
		for name, call := range map[string]func(context.Context, soap.RoundTripper) (any, error){
			"content": func(ctx context.Context, c soap.RoundTripper) (any, error) { return methods.GetServiceContent(ctx, c) },
			"properties": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.RetrievePropertiesEx(ctx, c, &types.RetrievePropertiesEx{This: content.PropertyCollector, SpecSet: all(vm)})
			},
			"the old form": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.RetrieveProperties(ctx, c, &types.RetrieveProperties{This: content.PropertyCollector, SpecSet: all(folder)})
			},
			"a page": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.RetrievePropertiesEx(ctx, c, &types.RetrievePropertiesEx{This: content.PropertyCollector, SpecSet: all(vm), Options: types.RetrieveOptions{MaxObjects: 1}})
			},
			"a missing object": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.RetrievePropertiesEx(ctx, c, &types.RetrievePropertiesEx{This: content.PropertyCollector, SpecSet: all(none)})
			},
			"a method of a missing object": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.PowerOnVM_Task(ctx, c, &types.PowerOnVM_Task{This: none})
			},
			"a child": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.FindChild(ctx, c, &types.FindChild{This: *content.SearchIndex, Entity: folder, Name: template})
			},
			"no child": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.FindChild(ctx, c, &types.FindChild{This: *content.SearchIndex, Entity: folder, Name: "none"})
			},
			"events": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.QueryEvents(ctx, c, &types.QueryEvents{This: *content.EventManager, Filter: types.EventFilterSpec{EventTypeId: []string{"VmCreatedEvent"}}})
			},
			"a duplicate name": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.CreateFolder(ctx, c, &types.CreateFolder{This: folder, Name: template})
			},
			"an extension": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.FindExtension(ctx, c, &types.FindExtension{This: *content.ExtensionManager, ExtensionKey: "com.vmware.vcIntegrity"})
			},
			"no specification": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.GetCustomizationSpec(ctx, c, &types.GetCustomizationSpec{This: *content.CustomizationSpecManager, Name: "none"})
			},
			"a method of another type": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.PowerOnVM_Task(ctx, c, &types.PowerOnVM_Task{This: folder})
			},
		} {
			want, wantErr := call(t.Context(), web.Client)
			got, gotErr := call(t.Context(), straight.Client)
			compareAnswers(t, name, got, want, gotErr, wantErr)
		}
		vc.DropSessions()
		for name, call := range map[string]func(context.Context, soap.RoundTripper) (any, error){
			"a method": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.PowerOnVM_Task(ctx, c, &types.PowerOnVM_Task{This: vm})
			},
			"content": func(ctx context.Context, c soap.RoundTripper) (any, error) { return methods.GetServiceContent(ctx, c) },
			"properties": func(ctx context.Context, c soap.RoundTripper) (any, error) {
				return methods.RetrievePropertiesEx(ctx, c, &types.RetrievePropertiesEx{This: content.PropertyCollector, SpecSet: all(vm)})
			},
		} {
			want, wantErr := call(t.Context(), web.Client)
			got, gotErr := call(t.Context(), straight.Client)
			compareAnswers(t, name+" of an ended session", got, want, gotErr, wantErr)
		}
	})
}

func compareAnswers(t *testing.T, name string, got, want any, gotErr, wantErr error) {
	t.Helper()
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%s: %v, want %v", name, gotErr, wantErr)
	}
	if wantErr == nil {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		return
	}
	g, w := soap.ToSoapFault(gotErr), soap.ToSoapFault(wantErr)
	if g.Code != w.Code || g.String != w.String || !reflect.DeepEqual(g.VimFault(), w.VimFault()) {
		t.Errorf("%s: %+v, want %+v", name, g, w)
	}
}

func TestDirectCallsFailLikeTheNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vc, w, client, _ := wired(t, directly)
		now := func(ctx context.Context) error {
			_, err := methods.GetCurrentTime(ctx, client)
			return err
		}
		for name, c := range map[string]struct{ breaks, mends func() }{
			"cut":  {w.Cut, w.Mend},
			"down": {vc.Down, vc.Up},
		} {
			c.breaks()
			if err := now(t.Context()); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: %v", name, err)
			}
			c.mends()
			ok(t, now(t.Context()))

			vc.Stall()
			time.AfterFunc(time.Minute, c.breaks)
			if err := now(t.Context()); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s while a call waits: %v", name, err)
			}
			c.mends()
			vc.Up()
			ok(t, now(t.Context()))
		}
		vc.Stall()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := now(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		vc.Up()
		w.Kill()
		if err := now(t.Context()); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

// Otherwise the next wait of the stream would block behind it.
func TestDirectWaitEndsWithItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w, client, _ := wired(t, directly)
		wait := func(ctx context.Context, version string) (*types.UpdateSet, error) {
			res, err := methods.WaitForUpdatesEx(ctx, client, &types.WaitForUpdatesEx{This: client.ServiceContent.PropertyCollector, Version: version})
			if err != nil {
				return nil, err
			}
			return res.Returnval, nil
		}
		_, err := methods.CreateFilter(t.Context(), client, &types.CreateFilter{This: client.ServiceContent.PropertyCollector, Spec: types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: client.ServiceContent.RootFolder}}, PropSet: []types.PropertySpec{{Type: "Folder", PathSet: []string{"childEntity"}}}}})
		ok(t, err)
		set, err := wait(t.Context(), "")
		ok(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := wait(ctx, set.Version); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if log := w.Log(); !log[len(log)-1].Done {
			t.Error("the wait is still running in vCenter")
		}
		_, err = object.NewFolder(client.Client, client.ServiceContent.RootFolder).CreateFolder(t.Context(), "new")
		ok(t, err)
		if set, err = wait(t.Context(), set.Version); err != nil || len(set.FilterSet) != 1 {
			t.Errorf("%v, %+v", err, set)
		}
	})
}

func TestDirectCallsShareNoMemoryWithVCenter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vc, _, client, _ := wired(t, directly)
		vm, err := vc.Find("/DC0/vm/" + template)
		ok(t, err)
		pool, err := vc.Find("/DC0/host/DC0_C0/Resources")
		ok(t, err)
		folder, err := vc.Find("/DC0/vm")
		ok(t, err)
		option := &types.OptionValue{Key: "guestinfo.a", Value: "before"}
		task, err := methods.CloneVM_Task(t.Context(), client, &types.CloneVM_Task{This: vm, Folder: folder, Name: "clone", Spec: types.VirtualMachineCloneSpec{
			Location: types.VirtualMachineRelocateSpec{Pool: &pool}, Config: &types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{option}}}})
		ok(t, err)
		option.Value = "after"
		ok(t, object.NewTask(client.Client, task.Returnval).Wait(t.Context()))
		if got := extra(t, client, vc); got != "before" {
			t.Errorf("the VM has %q from a later change of the request", got)
		}
	})
}

// extra returns guestinfo.a of the clone and overwrites what it has read.
func extra(t *testing.T, client *govmomi.Client, vc *vcsim.VCenter) (value string) {
	t.Helper()
	clone, err := vc.Find("/DC0/vm/clone")
	ok(t, err)
	for range 2 {
		var vm mo.VirtualMachine
		ok(t, client.RetrieveOne(t.Context(), clone, []string{"config.extraConfig"}, &vm))
		for _, o := range vm.Config.ExtraConfig {
			if v := o.GetOptionValue(); v.Key == "guestinfo.a" {
				value = v.Value.(string)
				v.Value = "overwritten"
			}
		}
	}
	return value
}

func TestDirectCallsUseTheSessionOfTheirLogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vc, w, client, network := wired(t, directly)
		_, other := connect(t, vc, network, directly)
		ok(t, client.Logout(t.Context()))
		if _, err := methods.GetCurrentTime(t.Context(), client); !fault.Is(err, &types.NotAuthenticated{}) {
			t.Error(err)
		}
		if _, err := methods.GetCurrentTime(t.Context(), other); err != nil || vc.Sessions() != 1 {
			t.Errorf("%v, %d sessions", err, vc.Sessions())
		}
		loggedOut := *other.Client
		loggedOut.RoundTripper = w.Direct("no such session")
		if _, err := methods.GetCurrentTime(t.Context(), &loggedOut); !fault.Is(err, &types.NotAuthenticated{}) {
			t.Error(err)
		}
	})
}
