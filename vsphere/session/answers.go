package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// undirected refuses redirects. vCenter's API sends none, and after a redirect the client could send the password to another
// server, or over plain http.
func undirected(res *http.Response, err error) (*http.Response, error) {
	if err != nil || res.StatusCode < http.StatusMultipleChoices || res.StatusCode >= http.StatusBadRequest {
		return res, err
	}
	_ = res.Body.Close()
	return nil, vcfault.ForRetry(vcfault.ReasonNotVCenterAPI,
		"vCenter's address redirects to another one, which the server does not follow: set VC_HOST to the address of vCenter itself.")
}

// exchange makes a call and checks that the answer has all that vCenter's API requires, so that callers need not check it. If an answer
// lacks something, govmomi returns a nil response or empty fields, and its decoder panics if a value has another type than its field.
func exchange(ctx context.Context, next soap.RoundTripper, method string, req, res soap.HasFault) (err error) {
	if err = Contained(method, func() error { return next.RoundTrip(ctx, req, res) }); err == nil {
		if lack := lacking(res); lack != "" {
			err = vcfault.NotVCenterAPI(method, fmt.Errorf("the answer has no %s", lack))
		}
		return err
	}
	if vcfault.Known(err) {
		return err
	}
	return vcfault.NotVCenterAPI(method, err)
}

// Contained runs f, and returns an error if it panics. f calls code of govmomi that panics for an unexpected answer: the decoder, for a value of
// another type than the field's; the finder and the property collector's helpers, for objects without a name, a parent or a property. f must
// hold no lock.
func Contained(method string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			cause := fmt.Errorf("govmomi panicked with a %T", p) // without the value, which may contain a part of the answer
			if fault, is := p.(runtime.Error); is {
				cause = fault
			}
			err = vcfault.NotVCenterAPI(method, cause)
		}
	}()
	return f()
}

// searchMost bounds the calls of one search by govmomi's finder. The finder makes one call for each folder, and if a folder claims to contain
// itself, it never ends. vCenter has at most 2,500 datacenters, and few have ten.
const searchMost = 3000

// Bounded returns a client for one search, whose calls fail after searchMost.
func (s *Session) Bounded() *vim25.Client {
	c := *s.Vim
	c.RoundTripper = &search{next: s.Vim.RoundTripper, most: cmp.Or(s.searchMost, searchMost)}
	return &c
}

type search struct {
	next  soap.RoundTripper
	most  int32
	calls atomic.Int32
}

func (s *search) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	if s.calls.Add(1) > s.most {
		return vcfault.NotVCenterAPI(methodOf(req), errors.New("a folder seems to contain itself"))
	}
	return s.next.RoundTrip(ctx, req, res)
}

// missingManager returns the name of a manager that every vCenter has, but that this one's ServiceContent lacks; "" if it has all. (They are
// optional in the API because ESXi hosts lack some.)
func missingManager(c types.ServiceContent) string {
	managers := map[string]*types.ManagedObjectReference{
		"sessionManager": c.SessionManager, "viewManager": c.ViewManager, "searchIndex": c.SearchIndex, "taskManager": c.TaskManager,
		"eventManager": c.EventManager, "storageResourceManager": c.StorageResourceManager,
		"customizationSpecManager": c.CustomizationSpecManager, "rootFolder": &c.RootFolder, "propertyCollector": &c.PropertyCollector,
	}
	for _, name := range slices.Sorted(maps.Keys(managers)) {
		if ref := managers[name]; ref == nil || ref.Value == "" {
			return name
		}
	}
	return ""
}

// lacking names the part that a response must have and lacks: the response itself, or its Returnval if the API requires
// a non-empty one. Optional fields are pointers or slices in govmomi's types, and a number or a flag can be zero.
func lacking(res soap.HasFault) string {
	body := reflect.Indirect(reflect.ValueOf(res))
	if body.Kind() != reflect.Struct {
		return ""
	}
	response := body.FieldByName("Res")
	if !response.IsValid() || response.Kind() != reflect.Pointer {
		return ""
	}
	if response.IsNil() {
		return response.Type().Elem().Name()
	}
	value := response.Elem().FieldByName("Returnval")
	if value.IsValid() && value.Kind() == reflect.Struct && value.IsZero() && requires(value.Type()) {
		return "Returnval"
	}
	return ""
}

// requires reports whether the API requires a part of a value of this type. A value that has only optional parts can be empty: for example,
// RecommendDatastores' if it has nothing to recommend.
func requires(of reflect.Type) bool {
	for i := range of.NumField() {
		if f := of.Field(i); !f.Anonymous && !strings.Contains(f.Tag.Get("xml"), "omitempty") || f.Anonymous && f.Type.Kind() == reflect.Struct && requires(f.Type) {
			return true
		}
	}
	return false
}
