package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// The image has no time zones, unlike the machines that tests run on.
func TestTheBinaryBringsTheTimeZonesAlong(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"time/tzdata"` }) {
		t.Error("main.go does not import time/tzdata")
	}
}
