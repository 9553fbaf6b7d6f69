package session

import (
	"context"
	"reflect"
	"strings"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// A fault may repeat the secrets of its request. Secrets are removed from the fault of a call here, before it is returned, and from the fault of
// a task when its step receives it (package tasks).

// recordSecrets adds the secrets of a request, user data and passwords, to the record of its context.
func recordSecrets(ctx context.Context, req any) {
	if bag := SecretsOf(ctx); bag != nil {
		findSecrets(reflect.ValueOf(req), bag.Add)
	}
}

// findSecrets finds the secrets of a request.
func findSecrets(v reflect.Value, add func(string)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			findSecrets(v.Elem(), add)
		}
	case reflect.Slice:
		for i := range v.Len() {
			findSecrets(v.Index(i), add)
		}
	case reflect.Struct:
		if !v.CanInterface() {
			return
		}
		switch x := v.Interface().(type) {
		case types.OptionValue:
			if text, is := x.Value.(string); is && strings.HasPrefix(x.Key, "guestinfo.") && !strings.HasSuffix(x.Key, ".encoding") {
				add(text)
			}
		case types.CustomizationPassword:
			add(x.Value)
		case types.CustomizationSysprepText:
			add(x.Value)
		case types.CustomizationLinuxPrep:
			add(x.ScriptText)
		case types.CustomizationCloudinitPrep:
			add(x.Userdata)
			add(x.Metadata)
		case types.CustomizationUserData:
			add(x.ProductId)
		case types.CustomizationGuiRunOnce:
			for _, command := range x.CommandList {
				add(command)
			}
		}
		for i := range v.NumField() {
			findSecrets(v.Field(i), add)
		}
	}
}

// cleanFault removes secrets from the fault of an answer.
func cleanFault(ctx context.Context, res soap.HasFault) {
	if f := res.Fault(); f != nil {
		SecretsOf(ctx).CleanAll(f)
	}
}

// CleanError returns err with a text without secrets. It wraps err, so errors.As still finds the faults in it.
func CleanError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if cleaned := SecretsOf(ctx).Clean(text); cleaned != text {
		return &cleanError{cleaned, err}
	}
	return err
}

type cleanError struct {
	text string
	error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.error }
