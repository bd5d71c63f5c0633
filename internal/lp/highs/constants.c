//go:build cgo && highs

// HiGHS declares its constants `const` up to 1.11 (one strong definition per
// program, in the binding's own object) and `static const` from 1.12 on (none
// that other objects of the binding can see). Weak definitions make both link:
// a strong one wins where it exists. The values have not changed since 1.0.
#include "util/HighsInt.h"

#define HARE_CONSTANT(name, value) \
	extern const HighsInt name;    \
	__attribute__((weak)) const HighsInt name = value

HARE_CONSTANT(kHighsStatusError, -1);
HARE_CONSTANT(kHighsStatusOk, 0);
HARE_CONSTANT(kHighsStatusWarning, 1);

HARE_CONSTANT(kHighsVarTypeContinuous, 0);
HARE_CONSTANT(kHighsVarTypeInteger, 1);
HARE_CONSTANT(kHighsVarTypeSemiContinuous, 2);
HARE_CONSTANT(kHighsVarTypeSemiInteger, 3);
HARE_CONSTANT(kHighsVarTypeImplicitInteger, 4);

HARE_CONSTANT(kHighsObjSenseMinimize, 1);
HARE_CONSTANT(kHighsObjSenseMaximize, -1);

HARE_CONSTANT(kHighsMatrixFormatColwise, 1);
HARE_CONSTANT(kHighsMatrixFormatRowwise, 2);

HARE_CONSTANT(kHighsHessianFormatTriangular, 1);
HARE_CONSTANT(kHighsHessianFormatSquare, 2);

HARE_CONSTANT(kHighsSolutionStatusNone, 0);
HARE_CONSTANT(kHighsSolutionStatusInfeasible, 1);
HARE_CONSTANT(kHighsSolutionStatusFeasible, 2);

HARE_CONSTANT(kHighsBasisValidityInvalid, 0);
HARE_CONSTANT(kHighsBasisValidityValid, 1);

HARE_CONSTANT(kHighsModelStatusNotset, 0);
HARE_CONSTANT(kHighsModelStatusLoadError, 1);
HARE_CONSTANT(kHighsModelStatusModelError, 2);
HARE_CONSTANT(kHighsModelStatusPresolveError, 3);
HARE_CONSTANT(kHighsModelStatusSolveError, 4);
HARE_CONSTANT(kHighsModelStatusPostsolveError, 5);
HARE_CONSTANT(kHighsModelStatusModelEmpty, 6);
HARE_CONSTANT(kHighsModelStatusOptimal, 7);
HARE_CONSTANT(kHighsModelStatusInfeasible, 8);
HARE_CONSTANT(kHighsModelStatusUnboundedOrInfeasible, 9);
HARE_CONSTANT(kHighsModelStatusUnbounded, 10);
HARE_CONSTANT(kHighsModelStatusObjectiveBound, 11);
HARE_CONSTANT(kHighsModelStatusObjectiveTarget, 12);
HARE_CONSTANT(kHighsModelStatusTimeLimit, 13);
HARE_CONSTANT(kHighsModelStatusIterationLimit, 14);
HARE_CONSTANT(kHighsModelStatusUnknown, 15);

HARE_CONSTANT(kHighsBasisStatusLower, 0);
HARE_CONSTANT(kHighsBasisStatusBasic, 1);
HARE_CONSTANT(kHighsBasisStatusUpper, 2);
HARE_CONSTANT(kHighsBasisStatusZero, 3);
HARE_CONSTANT(kHighsBasisStatusNonbasic, 4);
