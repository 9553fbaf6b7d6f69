package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// The image has no time zone files, unlike the machines that tests run on, so the binary must contain them.
func TestTheBinaryBringsTheTimeZonesAlong(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ImportsOnly)
	must.Succeed(t, err)
	if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"time/tzdata"` }) {
		t.Error("main.go does not import time/tzdata")
	}
}
