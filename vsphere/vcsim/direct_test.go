package vcsim_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
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
